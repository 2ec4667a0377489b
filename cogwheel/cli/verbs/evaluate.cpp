#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/harness_evaluation.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/cli/training.h"
#include "cogwheel/cli/verbs/device_option.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/runs/evaluation/evaluation_page.h"
#include "cogwheel/runs/mean_in_parts.h"
#include "cogwheel/runs/sampler.h"
#include "cogwheel/runs/sampler_options.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::cli {
namespace {

struct EvaluateArguments {
  std::vector<std::string> runs;
  std::string out, weights, cache, device = "cpu";
  std::int64_t sink = -1;
  bool all_held_out = false;
  std::int64_t ranks = 0;
  runs::ThoroughInspection inspection;
  HarnessArguments harness;
  Definitions definitions;

  const std::string& run() const { return runs.front(); }
};

std::string command_of(const EvaluateArguments& arguments) {
  const runs::ThoroughInspection& options = arguments.inspection;
  std::string command = "cogwheel evaluate " + shell_word(arguments.run());
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", name, shell_word(value));
  };
  if (arguments.all_held_out) command += " --all-held-out";
  const auto number = [](auto value) { return value ? std::to_string(*value) : ""; };
  add("--samples", options.samples > 0 ? std::to_string(options.samples) : "");
  add("--sampler", options.sampler);
  add("--sampler-steps", number(options.sampler_steps));
  add("--seed", number(options.seed));
  add("--inception", options.inception.string());
  add("--classifier-steps", number(options.classifier_steps));
  add("--references", options.references.string());
  add("--weights", arguments.weights);
  add("--cache", arguments.cache);
  add("--device", arguments.device == "cpu" ? "" : arguments.device);
  add("--sink", arguments.sink >= 0 ? std::to_string(arguments.sink) : "");
  return command;
}

// Those that say how images are drawn and measured mean nothing without.
void expect_samples(const runs::ThoroughInspection& options) {
  if (options.samples > 0) return;
  const auto refuse = [](const char* name, bool given) {
    if (given) throw UsageError(expected_got(std::string("evaluate: ") + name, "--samples with it", "none"));
  };
  refuse("--sampler", !options.sampler.empty());
  refuse("--sampler-steps", options.sampler_steps.has_value());
  refuse("--inception", !options.inception.empty());
  refuse("--classifier-steps", options.classifier_steps.has_value());
  refuse("--references", !options.references.empty());
}

// What lm-eval asks of a run has nothing to do with the measures of its task.
void expect_no_measures(const EvaluateArguments& arguments) {
  const auto refuse = [](const char* name, bool given) {
    if (given) throw UsageError(expected_got(std::string("evaluate: ") + name, "none beside --harness", "one"));
  };
  expect_samples(arguments.inspection);
  refuse("--samples", arguments.inspection.samples > 0);
  refuse("--weights", !arguments.weights.empty());
  refuse("--cache", !arguments.cache.empty());
  refuse("--sink", arguments.sink >= 0);
  refuse("--all-held-out", arguments.all_held_out);
  refuse("--device", arguments.device != "cpu");
  refuse("--ranks", arguments.ranks > 0 || ranks().count() > 1);
}

// The folder of the page, which can be written. That of another run has a page of its own.
std::filesystem::path place_of(const EvaluateArguments& arguments, const runs::RunFolder& run) {
  namespace fs = std::filesystem;
  std::error_code problem;
  expect_makable(arguments.out.empty() ? run.path() : fs::path(arguments.out));
  if (arguments.out.empty() || fs::equivalent(arguments.out, run.path(), problem)) return run.path();
  runs::expect_no_run_file(arguments.out, "evaluate: --out");
  for (const char* name : {runs::evaluation_json_file, runs::evaluation_page_file})
    runs::expect_no_run_file(fs::path(arguments.out) / name, "evaluate: --out");
  return arguments.out;
}

void evaluate(const EvaluateArguments& arguments) {
  if (arguments.harness.given()) {
    expect_no_measures(arguments);
    evaluate_by_harness(arguments.harness, {.runs = arguments.runs,
                                            .out = arguments.out,
                                            .seed = arguments.inspection.seed,
                                            .definitions = arguments.definitions});
    return;
  }
  arguments.harness.expect_none();
  if (arguments.runs.size() > 1)
    throw UsageError(
        expected_got("evaluate", "one run, or --harness with several", fmt::format("{} runs", arguments.runs.size())));
  expect_samples(arguments.inspection);
  const runs::KeptNumbers kept{.weights = nn::narrow_type("evaluate: --weights", arguments.weights),
                               .cache = nn::narrow_type("evaluate: --cache", arguments.cache),
                               .sink = arguments.sink};
  register_definitions(arguments.definitions);
  if (ran_as_ranks(arguments.ranks)) return;
  place_models_on(arguments.device, "evaluate");
  const runs::RunFolder folder = runs::RunFolder::open(arguments.run());
  const std::filesystem::path out = place_of(arguments, folder);
  const runs::RunConfig config = runs::load_config(folder.config_path());
  const runs::EvaluationOfRun evaluation = [&] {
    runs::ThoroughInspection options = arguments.inspection;
    options.folder = folder.path();
    options.progress = [](const std::string& text) {
      if (ranks().is_first()) fmt::print(stderr, "{}\n", text);
    };
    const auto task = runs::make_task(config, folder.path());
    if (ranks().is_first()) say_how_data_are_taken(*task);
    expect_all_ready(/*last=*/true);
    const runs::PartsOfRanks shared(ranks());
    // As in its comparison, so that the numbers are those of its report.
    const auto evaluated = arguments.all_held_out ? std::nullopt : compare::evaluated_in_comparison(folder.path());
    return runs::evaluate_run(*task, config, folder, options, evaluated, kept);
  }();
  if (!ranks().is_first()) return;
  make_folder(out);
  write_file(out / runs::evaluation_json_file, runs::evaluation_to_json(evaluation));
  write_file(out / runs::evaluation_page_file,
             runs::evaluation_page(evaluation, command_of(arguments), utc_now(), COGWHEEL_VERSION));
  fmt::print("{}\n{}\n", runs::evaluation_verdict(evaluation), (out / runs::evaluation_page_file).string());
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate", "Measure a trained model, and write a page of what it does");
  command->add_option("run", arguments->runs, "the folder of the run, such as runs/latest; of several with --harness")
      ->required()
      ->type_name("RUN");
  command
      ->add_option("--out", arguments->out,
                   "folder of the page; by default that of the run, of several the working folder")
      ->type_name("DIR");
  add_ranks_option(*command, arguments->ranks, "that measure together; the numbers are those of one");
  command->add_flag("--all-held-out", arguments->all_held_out,
                    "of a run of a comparison: measure all that is held out, not the part of it that is compared");
  command
      ->add_option("--weights", arguments->weights,
                   "of a language model: what weights kept as bf16 or int8 cost, in loss and flipped signs")
      ->type_name("TYPE");
  command->add_option("--cache", arguments->cache, "the same of keys and values")->type_name("TYPE");
  add_number(*command, "--sink", arguments->sink, Range<std::int64_t>{0, runs::sink_range.max},
             "of a language model: the loss of texts of 16 contexts, with the first N tokens kept and the newest")
      ->default_str("")
      ->type_name("N");
  runs::ThoroughInspection& inspection = arguments->inspection;
  add_number(*command, "--samples", inspection.samples, Range<std::int64_t>{2, 10'000'000},
             "of diffusion: draw so many images and measure how near they are to those of the data")
      ->type_name("N");
  command->add_option("--sampler", inspection.sampler, "from noise to image, as of sample")->type_name("NAME");
  add_number(*command, "--sampler-steps", inspection.sampler_steps, runs::SamplerOptions::any_steps,
             "of the sampler; by default 50")
      ->type_name("N");
  add_number(*command, "--seed", inspection.seed, runs::sampling_seed_range,
             "of what is drawn at random; by default that of the run, with --harness 1234 as lm-eval's")
      ->type_name("S");
  command
      ->add_option("--inception", inspection.inception,
                   "weights of Inception-v3 as pytorch-fid names them, for FID; else a classifier is trained here")
      ->type_name("FILE");
  add_number(*command, "--classifier-steps", inspection.classifier_steps, Range<std::int64_t>{1, 1'000'000},
             "train that classifier anew for so many; by default the one of the run is kept, trained for 1,500")
      ->type_name("N");
  command->add_option("--references", inspection.references, "mean and covariance of other images' features")
      ->type_name("FILE");
  add_harness_options(*command, arguments->harness);
  add_device_option(*command, arguments->device);
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace cogwheel::cli
