#include "cogwheel/tasks/synthetic/sampled_task.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/philox.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/mean_in_parts.h"
#include "cogwheel/runs/task_options.h"

namespace cogwheel::tasks::synthetic {
namespace {

// At each difficulty: enough for a share known within a few hundredths.
constexpr std::int64_t sequences_at_each = 128;

// Quarters of what is trained on, then twice as much each time, and the largest.
std::vector<std::int64_t> difficulties(std::int64_t trained, std::int64_t largest) {
  std::vector<std::int64_t> chosen;
  const auto choose = [&](std::int64_t difficulty) {
    if (difficulty > (chosen.empty() ? 0 : chosen.back())) chosen.push_back(difficulty);
  };
  choose(trained / 4);
  choose(trained / 2);
  for (std::int64_t difficulty = trained; difficulty <= largest; difficulty *= 2) choose(difficulty);
  choose(largest);
  return chosen;
}

}  // namespace

std::uint32_t SampledTask::Draws::at(std::int64_t place) const {
  const auto number = static_cast<std::uint64_t>(sequence_);
  return philox({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(number),
                 static_cast<std::uint32_t>(number >> 32), static_cast<std::uint32_t>(part_)},
                philox_key(seed_))[0];
}

runs::DataFacts SampledTask::data(const runs::ModelOptions& model, const runs::TrainingOptions& training) const {
  const std::int64_t tokens = window(runs::common(model).context), sequences = evaluated_tokens_ / tokens;
  return {.name = "random " + description().item + "s",
          .tokenizer = description().item,
          .vocabulary = vocabulary(),
          .held_out_tokens = evaluated_tokens_,
          .evaluated_tokens = sequences * tokens,
          .curve_tokens = evaluated_sequences(training, runs::EvaluationPart::curve, tokens, sequences) * tokens,
          .window = tokens};
}

runs::RunConfig SampledTask::completed(runs::RunConfig config) const {
  const std::string& name = description().name;
  const std::int64_t context = runs::common(config.model).context;
  expect_within("model.context", context, Range<std::int64_t>{2, evaluated_tokens_});
  const Difficulty trained = difficulty(context);
  if (tokens(trained.trained) > context)
    throw UsageError(expected_got("model.context",
                                  fmt::format("at least {} for the task {} with {} up to {}", tokens(trained.trained),
                                              name, trained.name, trained.trained),
                                  std::to_string(context)));
  complete_model(config, vocabulary(), "the task " + name);
  config.task = options_;
  return config;
}

runs::Batch SampledTask::batch(const torch::nn::Module& model, const runs::TrainingOptions& training,
                               const runs::DataPlace& place) const {
  const std::int64_t context = context_of(model);
  return draw(training.seed, Part::training, place.rows, training.batch, context,
              trained_at(place.batches, difficulty(context).trained));
}

runs::Batch SampledTask::held_out_sequences(const torch::nn::Module& model, std::int64_t count) const {
  const std::int64_t context = context_of(model);
  return draw(0, evaluated_, 0, count, context, difficulty(context).trained);
}

runs::MeasuredValues SampledTask::evaluate(torch::nn::Module& model, const runs::TrainingOptions& training,
                                           runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const {
  const std::int64_t context = context_of(model), tokens = window(context);
  const std::int64_t count = evaluated_sequences(training, part, tokens, evaluated_tokens_ / tokens);
  return measured(model_of(model), evaluated(count, context), heads).values;
}

runs::Batch SampledTask::evaluated(std::int64_t count, std::int64_t context) const {
  return draw(0, evaluated_, 0, count, context, difficulty(context).trained);
}

SampledTask::Measured SampledTask::measured(language::LanguageModelImpl& model, const runs::Batch& all,
                                            nn::StatisticsOfHeads* heads) const {
  const auto at_answers = [&](const runs::Batch& some, const nn::ForwardContext& given) -> runs::PartialMeans {
    const at::Tensor logits = model.forward(some.inputs, given).cpu(), counted = some.targets != ignored_target;
    return {{at::cross_entropy_loss(logits.flatten(0, 1), some.targets.flatten()).item<double>(),
             (logits.argmax(-1) == some.targets).masked_select(counted).mean(at::kDouble).item<double>()},
            counted.sum().item<double>()};
  };
  const auto means = runs::mean_in_parts(all, heads, at_answers);
  return {{{"held_out_loss", means[0]}, {"accuracy", means[1]}},
          (all.targets != ignored_target).sum().item<std::int64_t>()};
}

runs::Inspection SampledTask::inspect(torch::nn::Module& module, std::uint64_t, const runs::ThoroughInspection*) const {
  const torch::NoGradGuard no_grad;
  language::LanguageModel model = nn::holder_of<language::LanguageModel>(module);
  // The longest that a map can show.
  constexpr std::int64_t readable = 31;
  std::int64_t shown = difficulty(model->options().context).trained;
  while (shown > 1 && tokens(shown) > readable) --shown;
  const runs::Batch example = draw_at(shown, 1);
  const at::Tensor answers = model->forward(example.inputs).cpu().argmax(-1);
  std::vector<Token> sequence;
  std::string given, right;
  runs::Inspection inspection;
  for (std::int64_t place = 0; place < example.inputs.size(1); ++place) {
    sequence.push_back(static_cast<Token>(example.inputs[0][place].item<std::int64_t>()));
    inspection.prompt += (place == 0 ? "" : " ") + label(sequence.back());
    const auto target = example.targets[0][place].item<std::int64_t>();
    if (target == ignored_target) continue;
    given += " " + label(static_cast<Token>(answers[0][place].item<std::int64_t>()));
    right += " " + label(static_cast<Token>(target));
  }
  runs::Inspection maps = maps_of(model, sequence, [this](Token token) { return label(token); });
  inspection.tokens = std::move(maps.tokens);
  inspection.maps = std::move(maps.maps);
  inspection.sample = "\nanswers:" + given + "\nright:  " + right;
  inspection.by_difficulty = {by_difficulty(model)};
  inspection.tables = tables_of(inspection.by_difficulty.front());
  return inspection;
}

runs::MeasuresByDifficulty SampledTask::by_difficulty(language::LanguageModel& model) const {
  const Difficulty range = difficulty(model->options().context);
  runs::MeasuresByDifficulty measures{.difficulty = range.name, .trained = range.trained};
  for (const std::int64_t each : difficulties(range.trained, range.largest)) {
    const runs::Batch all = draw_at(each, sequences_at_each);
    const std::int64_t first = first_answer(each);
    if (first > 0) all.targets.narrow(1, 0, first).fill_(ignored_target);
    Measured found = measured(*model, all, nullptr);
    std::erase_if(found.values, [](const runs::MeasuredValue& value) { return value.measure == "held_out_loss"; });
    measures.points.push_back({.difficulty = each, .answers = found.answers, .measured = std::move(found.values)});
  }
  return measures;
}

std::vector<pages::TextTable> SampledTask::tables_of(const runs::MeasuresByDifficulty& measures) const {
  std::vector<pages::TextTable> tables;
  for (const runs::Measure& measure : description().measures) {
    pages::TextTable table{.title = pages::capitalised(measure.title) + " by " + measures.difficulty,
                           .columns = {measures.difficulty, measure.label},
                           .rows = {}};
    for (const auto& point : measures.points)
      if (const double* const value = runs::find_value(point.measured, measure.name))
        table.rows.push_back({std::to_string(point.difficulty), fmt::format("{:.3f}", *value)});
    if (!table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

std::shared_ptr<const runs::Task> SampledTask::limited(std::int64_t evaluated_tokens) const {
  const std::shared_ptr<SampledTask> task = copy();
  task->evaluated_tokens_ = evaluated_tokens;
  return task;
}

std::shared_ptr<const runs::Task> SampledTask::for_tuning() const {
  const std::shared_ptr<SampledTask> task = copy();
  task->evaluated_ = Part::tuning;
  return task;
}

SampledTask::Sequence SampledTask::row_of(const runs::Batch& batch, std::int64_t row) {
  const std::int64_t tokens = batch.inputs.size(1);
  const auto row_in = [&](const at::Tensor& all) {
    return std::span(all.data_ptr<std::int64_t>() + row * tokens, static_cast<std::size_t>(tokens));
  };
  return {row_in(batch.inputs), row_in(batch.targets)};
}

runs::Batch SampledTask::padded(std::int64_t count, std::int64_t tokens) const {
  return {at::full({count, tokens}, vocabulary() - 1, at::kLong), at::full({count, tokens}, ignored_target, at::kLong),
          count * tokens};
}

runs::Batch SampledTask::draw(std::uint64_t seed, Part part, std::int64_t first, std::int64_t count,
                              std::int64_t context, std::int64_t trained) const {
  const runs::Batch batch = padded(count, window(context));
  for (std::int64_t row = 0; row < count; ++row) {
    const Draws draws(seed, part, first + row);
    write(draws, drawn_difficulty(draws, trained), row_of(batch, row));
  }
  return batch;
}

runs::Batch SampledTask::draw_at(std::int64_t difficulty, std::int64_t count) const {
  const runs::Batch batch = padded(count, tokens(difficulty));
  for (std::int64_t row = 0; row < count; ++row) write(Draws(0, evaluated_, row), difficulty, row_of(batch, row));
  return batch;
}

runs::Preset sampled_preset(std::string_view name, std::string_view summary,
                            std::map<std::string, runs::ConfigValue> options, std::int64_t context, std::int64_t batch,
                            std::int64_t steps) {
  runs::Preset made = language::language_preset(name, summary, 2, 2, 64, context, batch);
  made.task = {std::string(name), std::move(options)};
  made.form = "llama";
  made.steps = steps;
  made.evaluated_tokens = 32768;
  return made;
}

}  // namespace cogwheel::tasks::synthetic
