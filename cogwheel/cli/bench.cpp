// The benchmarks are written in Python, as are their peers: python/cogwheel/bench.
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/core/environment_python.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process.h"
#include "cogwheel/tasks/language_modelling.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {
namespace {

void hand_over(const std::vector<std::string>& words) {
  // Training is measured with this executable, not with the one installed in the environment.
  std::error_code problem;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (!problem) ::setenv("COGWHEEL_EXECUTABLE", self.c_str(), /*overwrite=*/0);
  std::vector<std::string> command = {environment_python(), "-m", "cogwheel.bench"};
  command.insert(command.end(), words.begin(), words.end());
  become_program(command);
  throw Error(expected_got("bench", "a Python with Cogwheel's package", "no " + command.front()));
}

// Random tokens below the size of a vocabulary, without a text.
class NumberedTokens final : public Tokenizer {
 public:
  explicit NumberedTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view kind() const override { return "numbered"; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::vector<Token> encode(std::string_view, std::string_view what) const override {
    throw Error(expected_got(std::string(what), "numbers", "text"));
  }
  std::string decode(std::span<const Token>) const override { return ""; }
  std::string to_json() const override { return "{}"; }

 private:
  std::int64_t vocabulary_;
};

std::shared_ptr<const Dataset> random_data(std::int64_t vocabulary) {
  constexpr std::size_t tokens = 1 << 20;
  auto data = std::make_shared<Dataset>();
  data->name = "random tokens";
  data->tokenizer = std::make_shared<NumberedTokens>(vocabulary);
  std::mt19937_64 generator(0);
  for (auto* part : {&data->training, &data->held_out}) {
    part->resize(tokens);
    for (Token& token : *part) token = static_cast<Token>(generator() % static_cast<std::uint64_t>(vocabulary));
  }
  return data;
}

struct Steps {
  LanguageModelOptions model;
  TrainingOptions training;
  std::int64_t threads = 0;
  Definitions definitions;
};

// Prints the number of parameters, then makes one training step for each line of input and prints its loss: the caller
// measures the time.
void make_steps(const Steps& steps) {
  if (steps.threads > 0) at::set_num_threads(static_cast<int>(steps.threads));
  register_definitions(steps.definitions);
  const auto task = make_language_modelling(random_data(steps.model.vocabulary));
  TrainingRun run(steps.model, steps.training, task);
  fmt::print("{{\"parameters\": {}}}\n", parameter_count(*task, run.model_options()));
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{{\"loss\": {}}}\n", run.step());
    std::fflush(stdout);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Time kernels and training against PyTorch's, in one run (`bench --help`)");
  command->prefix_command();
  command->set_help_flag();  // the benchmarks print their own help
  command->callback([command] { hand_over(command->remaining()); });
}

void add_bench_steps(CLI::App& app) {
  const auto steps = std::make_shared<Steps>();
  steps->training.steps = steps_range.max;
  CLI::App* command = app.add_subcommand("bench-steps", "Training steps for `bench training`");
  command->group("");                                   // hidden from --help
  constexpr Range<std::int64_t> any_count{0, 1 << 30};  // model and training check their own limits
  add_number(*command, "--layers", steps->model.layers, any_count, "");
  add_number(*command, "--heads", steps->model.heads, any_count, "");
  add_number(*command, "--width", steps->model.width, any_count, "");
  add_number(*command, "--context", steps->model.context, any_count, "");
  add_number(*command, "--vocabulary", steps->model.vocabulary, any_count, "");
  command->add_option("--mechanism", steps->model.mechanism);
  add_number(*command, "--batch", steps->training.batch, batch_range, "");
  command->add_option("--precision", steps->training.precision);
  add_number(*command, "--threads", steps->threads, Range<std::int64_t>{0, 1 << 12}, "");
  add_definition_options(*command, steps->definitions);
  command->callback([steps] { make_steps(*steps); });
}

}  // namespace cogwheel
