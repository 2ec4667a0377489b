// The benchmarks are written in Python, as are their peers: python/cogwheel/bench.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/operator_times.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/cli/verbs/bench_network.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/process.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/training/start_of_run.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/translation/random_translations.h"

namespace cogwheel::cli {
namespace {

void hand_over(const std::vector<std::string>& words) {
  // Training is measured with this executable, not with the one installed in the environment.
  std::error_code problem;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (!problem) ::setenv("COGWHEEL_EXECUTABLE", self.c_str(), /*overwrite=*/0);
  std::vector<std::string> command =
      python_running("import runpy\nrunpy.run_module('cogwheel.bench', run_name='__main__', alter_sys=True)\n");
  command.insert(command.end(), words.begin(), words.end());
  become_program(command);
  throw Error(expected_got("bench", "a Python with Cogwheel's package", "no " + command.front()));
}

struct Steps {
  runs::RunConfig config;
  std::vector<std::string> assignments;
  runs::RandomItems items;
  std::int64_t beam = 0;  // 0: training steps
  std::int64_t threads = 0, ranks = 0;
  std::string saved;         // file of the first weights and batches; empty: none
  std::int64_t batches = 0;  // that are saved
  bool operators = false;    // says what each of a step took
  Definitions definitions;
};

// Calls `step` for each line of input, as often as it says, and prints what it returns: the caller measures the time.
void answer_lines(
    std::int64_t parameters, bool with_operators, const std::function<double()>& step,
    const std::function<void()>& ended = [] {}) {
  fmt::print("{{\"parameters\": {}}}\n", parameters);
  std::fflush(stdout);
  std::optional<OperatorTimes> times;
  if (with_operators) times.emplace();
  for (std::string line; std::getline(std::cin, line);) {
    double loss = step();
    for (int more = std::atoi(line.c_str()) - 1; more > 0; --more) loss = step();
    ended();
    fmt::print("{{\"loss\": {}{}}}\n", loss, times ? ", \"operators\": " + times->take_json() : "");
    std::fflush(stdout);
  }
}

void make_steps(Steps& steps) {
  if (ran_as_ranks(steps.ranks)) return;
  if (steps.threads > 0) at::set_num_threads(static_cast<int>(steps.threads));
  register_definitions(steps.definitions);
  steps.config.training.steps = runs::steps_range.max;
  runs::set_options(steps.config, steps.assignments);
  if (steps.beam > 0) {
    if (steps.config.task.name != "translation")
      throw UsageError(expected_got("--beam", "the task translation", steps.config.task.name));
    answer_lines(runs::parameter_count(steps.config.model), steps.operators,
                 tasks::translation::random_translations(steps.config, steps.items, steps.beam));
    return;
  }
  const auto task = runs::make_random_task(steps.config, steps.items);
  runs::TrainingRun run(steps.config.model, steps.config.training, task, &ranks());
  expect_all_ready(/*last=*/true);
  if (!steps.saved.empty()) runs::save_start(run, steps.batches, steps.saved);
  answer_lines(
      runs::parameter_count(run.model_options()), steps.operators, [&] { return run.step(); },
      [&] { run.take_all_weights(); });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Time kernels and training against PyTorch's, in one run (`bench --help`)");
  add_bench_network_command(*command);
  command->prefix_command();
  command->set_help_flag();  // the benchmarks print their own help
  command->callback([command] {
    if (command->get_subcommands().empty()) hand_over(command->remaining());
  });
}

void add_bench_steps_command(CLI::App& app) {
  const auto steps = std::make_shared<Steps>();
  CLI::App* command =
      app.add_subcommand("bench-steps", "Steps on random items for `bench training`, `bench scale` and `bench beam`");
  command->group("");  // hidden from --help
  constexpr Range<std::int64_t> any_count{0, 1 << 30}, some{1, 1 << 20};
  command->add_option("--set", steps->assignments);
  add_number(*command, "--length", steps->items.length, some, "");
  add_number(*command, "--source", steps->items.source, some, "");
  add_number(*command, "--beam", steps->beam, any_count, "");
  command->add_option("--save", steps->saved);
  add_number(*command, "--batches", steps->batches, any_count, "");
  add_ranks_option(*command, steps->ranks, "that share a step");
  add_number(*command, "--threads", steps->threads, Range<std::int64_t>{0, 1 << 12}, "");
  command->add_flag("--operators", steps->operators);
  add_definition_options(*command, steps->definitions);
  command->callback([steps] { make_steps(*steps); });
}

}  // namespace cogwheel::cli
