#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/verbs/device_option.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/handwriting/pen_options.h"
#include "cogwheel/tasks/translation/beam_search_options.h"

namespace cogwheel::cli {
namespace {

struct SampleArguments {
  std::string run;
  runs::SampleRequest request;
  std::string sampler, device = "cpu";
  Definitions definitions;
  std::vector<CLI::Option*> options;  // those that only some tasks have
};

// The sampler of the task of a run. Throws where the task has none, or not one of the given options.
const runs::Sampler& sampler_of(const runs::RunFolder& folder, const std::vector<CLI::Option*>& options) {
  const std::string name = runs::load_config(folder.config_path()).task.name;
  const runs::Sampler& sampler = runs::find_task(name).sampler;
  if (sampler.sample == nullptr) {
    std::vector<std::string> others;
    for (const runs::TaskEntry& entry : runs::tasks())
      if (entry.sampler.sample != nullptr) others.push_back(entry.description.name);
    throw Error(expected_got(folder.path().string(),
                             "a run of a task that can be sampled: " + fmt::format("{}", fmt::join(others, ", ")),
                             name));
  }
  for (const CLI::Option* option : options)
    if (option->count() > 0 &&
        std::find(sampler.options.begin(), sampler.options.end(), option->get_name()) == sampler.options.end())
      throw UsageError(expected_got(
          "sample: option", "one for the task " + name + ": " + fmt::format("{}", fmt::join(sampler.options, ", ")),
          option->get_name()));
  return sampler;
}

// Of the standard input; none at its end. A Ctrl-C from before means nothing to what follows.
std::optional<std::string> next_line() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  take_stop();
  return line;
}

void sample_run(const SampleArguments& arguments) {
  register_definitions(arguments.definitions);
  place_models_on(arguments.device, "sample");
  const runs::RunFolder folder = runs::RunFolder::open(arguments.run);
  const auto& stop = stop_flag();
  runs::SampleRequest request = arguments.request;
  if (request.interactive) end_on_termination();
  request.diffusion.kind = runs::sampler_kind(arguments.sampler, "sample: --sampler");
  request.warn = [](const std::string& text) { fmt::print(stderr, "warning: {}\n", text); };
  request.read_line = [] { return next_line(); };
  const runs::Sampler& sampler = sampler_of(folder, arguments.options);
  if (!request.alignments.empty()) {
    runs::expect_no_run_file(request.alignments, "sample: --alignments");
    std::error_code problem;
    if (std::filesystem::equivalent(request.alignments, request.input, problem))
      throw UsageError(expected_got("sample: --alignments", "another file than --input", request.input.string()));
  }
  bool written = false, read = true;
  sampler.sample(folder, request, [&](std::string_view text) {
    written = written || !text.empty();
    std::fwrite(text.data(), 1, text.size(), stdout);
    // Also asked between texts that are not written, as of handwriting that goes into a file.
    read = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    // Of an interactive sample, Ctrl-C ends what is being written alone.
    return read && !(request.interactive ? take_stop() : stop.load());
  });
  if (request.interactive) return;
  if (written && read) fmt::print("\n");
  if (stop.load()) throw Interrupted("interrupted");
}

}  // namespace

void add_sample_command(CLI::App& app) {
  const auto arguments = std::make_shared<SampleArguments>();
  runs::SampleRequest& request = arguments->request;
  runs::SamplingOptions& sampling = request.sampling;
  CLI::App* command = app.add_subcommand("sample", "Generate with a trained model");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  arguments->sampler = runs::sampler_names()[static_cast<std::size_t>(request.diffusion.kind)];
  const std::string sampler_help = fmt::format("from noise to image: {}", fmt::join(runs::sampler_names(), ", "));
  const auto add_text = [&](const char* name, auto& value, const char* help, const char* type) {
    arguments->options.push_back(command->add_option(name, value, help)->type_name(type));
  };
  const auto add = [&](const char* name, auto& value, const auto& range, const char* help, const char* type) {
    arguments->options.push_back(
        add_number(*command, name, value, range, help)->default_str(number_text(value))->type_name(type));
  };
  const auto add_flag = [&](const char* name, bool& value, const char* help) {
    arguments->options.push_back(command->add_flag(name, value, help));
  };
  add_text("--prompt", request.prompt, "text to continue, to translate, or to write by hand", "TEXT");
  add_text("--prompts", request.prompts,
           "a file of texts to continue: one a line, or in a .jsonl file objects with \"prompt\"", "FILE");
  add_flag("--interactive", request.interactive,
           "read lines and continue the text after each; Ctrl-C ends what is being written, Ctrl-D all");
  add_text(
      "--input", request.input,
      "a file: lines to translate or to classify, or a table of sentences; a picture, or a folder of them, to classify",
      "PATH");
  add("--length", sampling.length, runs::length_range, "tokens to generate", "N");
  add("--repetition-penalty", sampling.repetition_penalty, runs::repetition_penalty_range,
      "above 1, tokens that the text has already are less likely", "R");
  add("--temperature", sampling.temperature, runs::temperature_range, "0: always the likeliest token", "T");
  add("--top-k", sampling.top_k, runs::top_k_range, "draw among the K likeliest tokens; 0: among all", "K");
  add("--top-p", sampling.top_p, runs::top_p_range,
      "draw among the fewest tokens that have this probability together; 1: among all", "P");
  add("--min-p", sampling.min_p, runs::min_p_range,
      "draw among the tokens with at least this share of the likeliest's probability; 0: among all", "P");
  add_text("--stop", sampling.stop, "end before this text; may be given several times", "TEXT");
  arguments->options.back()->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--log-probabilities", sampling.likeliest, Range<std::int64_t>{0, runs::likeliest_range.max},
      "with --json: of each token, and of the K likeliest in its place", "K");
  arguments->options.back()->default_str("");
  add("--sink", sampling.sink, Range<std::int64_t>{0, runs::sink_range.max},
      "past the context, keep the first N tokens and the newest; else the newest are computed anew for each token",
      "N");
  arguments->options.back()->default_str("");
  add_text("--weights", request.weights, "keep weights as bf16 or int8: less memory, less to read for each token",
           "TYPE");
  add_text("--cache", request.cache, "keep keys and values as bf16 or int8", "TYPE");
  add("--batch", request.batch, Range<std::int64_t>{1, 1024}, "samples that are made side by side", "N");
  add_flag("--json", request.json, "print each sample as an object in a line of its own");
  add("--seed", sampling.seed, runs::sampling_seed_range, "the same seed gives the same sample", "S");
  add("--beam", request.beam, tasks::translation::beam_range,
      "hypotheses of a search for the most probable text or translation; 1: none (default: of translations as in the "
      "run)",
      "K");
  arguments->options.back()->default_str("");
  add_text("--alignments", request.alignments,
           "of translations: write the links between words there, a line for each translation: 0-0 1-2, source-target "
           "from 0",
           "FILE");
  arguments->options.push_back(
      add_number(*command, "--alignment-layer", request.alignment_layer, Range<std::int64_t>{0, 999},
                 "the decoder's layer, from 0, whose weights say the links; by default the next to last")
          ->type_name("N"));
  add("--bias", request.bias, tasks::handwriting::pen_bias_range, "of handwriting: 0 as the model says, more is tidier",
      "B");
  add_text("--prime", request.prime, "strokes to begin with, whose hand is kept: a .ndjson file or a folder", "PATH");
  arguments->options.push_back(add_number(*command, "--count", request.count, Range<std::int64_t>{1, 1'000'000},
                                          "images to draw, by default 16, or samples of each prompt, by default 1")
                                   ->type_name("N"));
  add_text("--class", request.image_class, "what images show; else each class in turn", "NAME");
  add_text("--context", request.context, "a .safetensors file with contexts, each for an image", "FILE");
  add("--guidance", request.guidance, runs::guidance_range,
      "of drawn images: how much more than the model would they show it", "S");
  add_text("--sampler", arguments->sampler, sampler_help.c_str(), "NAME");
  add("--sampler-steps", request.diffusion.steps, runs::SamplerOptions::any_steps, "from noise to image", "N");
  add("--eta", request.diffusion.eta, runs::SamplerOptions::etas,
      "of ddim: 0 adds no noise on the way, 1 as much as ddpm", "ETA");
  add_flag("--interpolate", request.interpolate, "from one noise to another instead of noise for each image");
  add_flag("--unclipped", request.unclipped, "let predicted pixels lie beyond black and white on the way to an image");
  add_text(
      "--out", request.out,
      "where it goes: handwriting as SVG, else it is printed; images as one .png, into a folder, or .safetensors, else "
      "samples.png of the run",
      "PATH");
  add_device_option(*command, arguments->device);
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { sample_run(*arguments); });
}

}  // namespace cogwheel::cli
