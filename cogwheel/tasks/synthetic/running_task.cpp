#include "cogwheel/tasks/synthetic/running_task.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>

namespace cogwheel::tasks::synthetic {
namespace {

constexpr Range<std::int64_t> running_lengths{0, 1 << 16};
const std::vector<std::string> step_names{"dense", "none", "asked", "written"};

// The last target of every row alone.
at::Tensor last_targets(const at::Tensor& targets) {
  const at::Tensor counted = targets != ignored_target;
  return targets.masked_fill(counted.flip(1).cumsum(1).flip(1) != 1, ignored_target);
}

// The inputs, with what the model takes for the answers after every place that is asked for one.
at::Tensor with_own_steps(language::LanguageModelImpl& model, const runs::Batch& batch) {
  const torch::NoGradGuard no_grad;
  const at::Tensor inputs = batch.inputs.clone();
  const std::int64_t rows = inputs.size(0), tokens = inputs.size(1);
  std::optional<nn::ModelState> state;
  if (model.can_decode()) state.emplace(model.make_state(rows));
  for (std::int64_t read = 0, place = 0; place + 1 < tokens; ++place) {
    const at::Tensor targets = batch.targets.select(1, place);
    const at::Tensor asked = targets != ignored_target;
    if (!asked.any().item<bool>()) continue;
    const at::Tensor logits = model.last_logits(inputs.slice(1, state ? read : 0, place + 1).contiguous(),
                                                {.state = state ? &*state : nullptr});
    read = place + 1;
    inputs.select(1, place + 1).copy_(at::where(asked, logits.cpu().argmax(-1), inputs.select(1, place + 1)));
  }
  return inputs;
}

}  // namespace

RunningOptions RunningOptions::read(runs::TaskOptionReader& reader) {
  RunningOptions options;
  options.length = reader.whole("length", 0, running_lengths);
  const std::string steps = reader.later_word("steps", step_names.front(), step_names);
  options.steps = static_cast<Steps>(std::find(step_names.begin(), step_names.end(), steps) - step_names.begin());
  return options;
}

RunningTask::RunningTask(const runs::TaskDescription& described, const RunningOptions& running,
                         runs::TaskOptions options)
    : SampledTask(std::move(options)), description_(described), running_(running) {
  if (is_dense()) return;
  description_.summary += ", of which the last counts";
  description_.measures.front().unit = "nats per last answer";
}

std::string RunningTask::label(Token token) const {
  if (token < states()) return name_of(token);
  return token < 2 * states() ? "=" + name_of(token - states()) : "·";
}

SampledTask::Difficulty RunningTask::difficulty(std::int64_t context) const {
  const std::int64_t largest = std::max<std::int64_t>(1, is_dense() ? context : context / 2);
  return {.name = "length", .trained = running_.length > 0 ? running_.length : largest, .largest = largest};
}

void RunningTask::write(const Draws& draws, std::int64_t length, const Sequence& sequence) const {
  using Steps = RunningOptions::Steps;
  std::int64_t state = 0;
  for (std::int64_t number = 0; number < length; ++number) {
    const std::int64_t token = draws.at(number) % states();
    const bool last = number + 1 == length;
    const auto place = static_cast<std::size_t>(is_dense() ? number : 2 * number);
    state = next(state, token);
    sequence.inputs[place] = token;
    if (last || running_.steps != Steps::none) sequence.targets[place] = is_dense() ? state : states() + state;
    if (!last && running_.steps == Steps::written) sequence.inputs[place + 1] = states() + state;
  }
}

SampledTask::Measured RunningTask::measured(language::LanguageModelImpl& model, const runs::Batch& all,
                                            nn::StatisticsOfHeads* heads) const {
  if (is_dense()) return SampledTask::measured(model, all, heads);
  constexpr std::int64_t rows_at_once = 128;
  runs::Batch last{all.inputs, last_targets(all.targets), all.tokens};
  if (running_.steps == RunningOptions::Steps::written) {
    last.inputs = all.inputs.clone();
    for (std::int64_t first = 0; first < all.inputs.size(0); first += rows_at_once) {
      const std::int64_t end = std::min(first + rows_at_once, all.inputs.size(0));
      last.inputs.slice(0, first, end)
          .copy_(with_own_steps(model, {all.inputs.slice(0, first, end), all.targets.slice(0, first, end), 0}));
    }
  }
  return SampledTask::measured(model, last, heads);
}

// The strings and their last states, whatever stands between.
std::string RunningTask::measured_problems(const runs::ModelOptions& model,
                                           const runs::TrainingOptions& training) const {
  if (is_dense()) return {};
  const runs::DataFacts facts = data(model, training);
  std::string problems = fmt::format("the last of {} to {} tokens in {} windows:", 1, facts.window / 2,
                                     facts.evaluated_tokens / facts.window);
  constexpr std::int64_t shown = 16;
  const runs::Batch some = evaluated(shown, runs::common(model).context);
  const at::Tensor targets = last_targets(some.targets);
  for (std::int64_t row = 0; row < shown; ++row)
    for (std::int64_t place = 0; place < facts.window; place += 2) {
      problems += fmt::format(" {}", some.inputs[row][place].item<std::int64_t>());
      if (const auto target = targets[row][place].item<std::int64_t>(); target != ignored_target)
        problems += fmt::format("={}", target);
    }
  return problems;
}

}  // namespace cogwheel::tasks::synthetic
