#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/models/language_model_options.h"
#include "cogwheel/models/sampling.h"
#include "cogwheel/storage/run_folder.h"

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
  register_definitions(arguments.definitions);
  const RunFolder folder = RunFolder::open(arguments.run);
  const auto model = load_language_model(folder);  // first: a run of another task has no tokenizer
  const auto tokenizer = load_tokenizer(folder.tokenizer_path());
  if (const std::int64_t vocabulary = options_of(*model).vocabulary; vocabulary != tokenizer->vocabulary())
    throw Error(expected_got(folder.tokenizer_path().string(), fmt::format("{} tokens, as the model", vocabulary),
                             std::to_string(tokenizer->vocabulary())));
  const auto prompt = tokenizer->encode(arguments.prompt, "--prompt");
  const auto& stop = stop_flag();
  print(arguments.prompt);
  sample(*model, prompt, arguments.sampling, [&](Token token) {
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
  command->add_option("--prompt", arguments->prompt, "text to continue")->type_name("TEXT");
  const auto add = [&](const char* name, auto& value, const auto& range, const char* help, const char* type) {
    add_number(*command, name, value, range, help)->default_str(number_text(value))->type_name(type);
  };
  add("--length", sampling.length, length_range, "tokens to generate", "N");
  add("--temperature", sampling.temperature, temperature_range, "0: always the likeliest token", "T");
  add("--top-k", sampling.top_k, top_k_range, "draw among the K likeliest tokens; 0: among all", "K");
  add("--seed", sampling.seed, sampling_seed_range, "the same seed gives the same text", "S");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { sample_text(*arguments); });
}

}  // namespace cogwheel
