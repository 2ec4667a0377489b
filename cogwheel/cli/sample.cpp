#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/models/sampling.h"
#include "cogwheel/train/run_folder.h"

namespace cogwheel {
namespace {

struct SampleArguments {
  std::string run, prompt;
  SamplingOptions sampling;
  Definitions definitions;
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void sample_text(const SampleArguments& arguments) {
  check(arguments.sampling);
  bring(arguments.definitions);
  const RunFolder folder = RunFolder::open(arguments.run);
  const auto tokenizer = load_tokenizer(folder.tokenizer_path());
  const auto prompt = tokenizer->encode(arguments.prompt, "--prompt");
  LanguageModel model = load_model(folder);
  const auto& stop = stop_flag();
  print(arguments.prompt);
  sample(model, prompt, arguments.sampling, [&](Token token) {
    print(tokenizer->decode({&token, 1}));
    return !stop.load();
  });
  print("\n");
  if (stop.load()) throw Interrupted("interrupted");
}

}  // namespace

void add_sample(CLI::App& app) {
  const auto arguments = std::make_shared<SampleArguments>();
  SamplingOptions& sampling = arguments->sampling;
  CLI::App* command = app.add_subcommand("sample", "Generate text with a trained model");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  command->add_option("--prompt", arguments->prompt, "text to go on from")->type_name("TEXT");
  command->add_option("--length", sampling.length, "tokens to generate")->capture_default_str()->type_name("N");
  command->add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->type_name("T");
  command->add_option("--top-k", sampling.top_k, "draw among the K likeliest tokens; 0: among all")
      ->capture_default_str()
      ->type_name("K");
  command->add_option("--seed", sampling.seed, "the same seed gives the same text")
      ->capture_default_str()
      ->type_name("S");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { sample_text(*arguments); });
}

}  // namespace cogwheel
