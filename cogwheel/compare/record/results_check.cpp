#include "cogwheel/compare/record/results_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/tasks/language/language_model_form.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::compare {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr Range<std::int64_t> any_count{0, largest}, some_count{1, largest};
constexpr Range<double> any_amount{0, 1e300}, some_amount{.min = 0, .max = 1e300, .min_excluded = true};

template <class Number>
void expect(const std::string& key, Number value, const Range<Number>& range) {
  if (!range.holds(value)) throw Error(expected_got(key, "a number from " + range.text(), number_text(value)));
}

void expect_one_of(const std::string& key, const std::string& value, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) == known.end())
    throw Error(expected_got(key, expected_names(value, known), value.empty() ? "nothing" : value));
}

void expect_task(const runs::TaskDescription& task) {
  if (task.measures.empty()) throw Error(expected_got("task.measures", "one at least", "none"));
  for (const runs::Measure& measure : task.measures)
    if (measure.name.empty() || measure.title.empty())
      throw Error(expected_got("task.measures", "a name and a title for each", "none for one"));
}

void expect_data(const runs::DataFacts& data, const runs::TaskDescription& task) {
  // Of a text, how it was cut into tokens; of other data, what its items are.
  if (data.bytes > 0 && data.corpus.empty())
    expect_one_of(
        "data.tokenizer", data.tokenizer,
        task.name == runs::TaskOptions{}.name ? text::tokenizer_names() : std::vector<std::string>{task.item});
  expect("data.byte_limit", data.byte_limit, any_count);
  expect("data.bytes", data.bytes, any_count);
  expect("data.vocabulary", data.vocabulary, any_count);  // 0 where nothing is chosen
  expect("data.train_tokens", data.train_tokens, data.bytes > 0 ? some_count : any_count);
  expect("data.held_out_tokens", data.held_out_tokens, some_count);
  expect("data.evaluated_tokens", data.evaluated_tokens, {1, data.held_out_tokens});
  expect("data.curve_tokens", data.curve_tokens, {1, data.evaluated_tokens});
  expect("data.window", data.window, any_count);
}

void expect_settings(const Comparison::Settings& settings) {
  expect_one_of("settings.form", settings.form, tasks::language::form_names());
  expect("settings.steps", settings.steps, {1, 1'000'000'000});
  expect("settings.tune", settings.tune, any_count);
  expect("settings.wall_seconds", settings.wall_seconds, any_amount);
  if (settings.seeds.empty()) throw Error(expected_got("settings.seeds", "one at least", "none"));
  const std::set<std::int64_t> seeds(settings.seeds.begin(), settings.seeds.end());
  if (seeds.size() != settings.seeds.size()) throw Error(expected_got("settings.seeds", "each once", "one twice"));
  expect("settings.seeds", *seeds.begin(), any_count);
  std::int64_t before = 0;
  for (const std::int64_t width : settings.widths) {
    if (width <= before) throw Error(expected_got("settings.widths", "numbers that rise", std::to_string(width)));
    before = width;
  }
}

void expect_mechanisms(const Comparison& comparison) {
  if (comparison.mechanisms.empty()) throw Error(expected_got("mechanisms", "one at least", "none"));
  const Comparison::Settings& settings = comparison.settings;
  std::set<std::string> names;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const std::string key = "mechanisms: " + plan.name;
    if (plan.name.empty() || plan.title.empty())
      throw Error(expected_got("mechanisms", "a name and a title for each", "none for one"));
    if (!names.insert(plan.name).second) throw Error(expected_got("mechanisms", "each once", plan.name + " twice"));
    for (const std::string& assignment : plan.set)
      if (assignment.find('=') == std::string::npos) throw Error(expected_got(key + ": set", "key=value", assignment));
    expect(key + ": steps", plan.steps, {1, 1'000'000'000});
    expect(key + ": learning_rate", plan.learning_rate, some_amount);
    expect(key + ": heads", plan.heads, some_count);
    expect(key + ": feed_forward", plan.feed_forward, some_count);
    expect(key + ": parameters", plan.parameters, some_count);
    expect(key + ": parameters_unmatched", plan.parameters_unmatched, some_count);
    if (plan.series.empty() != settings.widths.empty())
      throw Error(expected_got(key + ": series", settings.widths.empty() ? "none without widths" : "one", plan.series));
    if (plan.series.empty()) continue;
    if (std::find(settings.widths.begin(), settings.widths.end(), plan.width) == settings.widths.end())
      throw Error(expected_got(key + ": width", "one of settings.widths", std::to_string(plan.width)));
    expect(key + ": parameters_without_embeddings", plan.block_parameters, some_count);
    for (const std::int64_t width : settings.widths) {
      const auto same =
          std::count_if(comparison.mechanisms.begin(), comparison.mechanisms.end(),
                        [&](const auto& each) { return each.series == plan.series && each.width == width; });
      if (same != 1)
        throw Error(expected_got("mechanisms: " + plan.series, fmt::format("one row at width {}", width),
                                 std::to_string(same)));
    }
  }
  expect_one_of("baseline", comparison.baseline, {names.begin(), names.end()});
}

template <class Point>
void expect_rising(const std::string& key, const char* what, const std::vector<Point>& points,
                   std::int64_t Point::*number) {
  std::int64_t before = 0;
  for (const Point& point : points) {
    if (point.*number <= before)
      throw Error(
          expected_got(key, fmt::format("{} that rise", what), fmt::format("{} after {}", point.*number, before)));
    before = point.*number;
  }
}

void expect_run(const Comparison& comparison, const RunResult& run) {
  const std::string key = fmt::format("runs: {} seed {}", run.mechanism, run.seed);
  const auto& seeds = comparison.settings.seeds;
  if (comparison.plan(run.mechanism) == nullptr || std::find(seeds.begin(), seeds.end(), run.seed) == seeds.end())
    throw Error(
        expected_got("runs", "those of its mechanisms and seeds", run.mechanism + " seed " + std::to_string(run.seed)));
  if (comparison.run(run.mechanism, run.seed) != &run) throw Error(expected_got(key, "one", "two"));
  expect(key + ": tokens", run.tokens, any_count);
  expect(key + ": seconds", run.seconds, any_amount);
  expect(key + ": evaluation_seconds", run.evaluation_seconds, any_amount);
  expect(key + ": tokens_per_second", run.tokens_per_second, any_amount);
  for (const runs::Measure& measure : comparison.task.measures)
    if (const double* value = runs::find_value(run.measured, measure.name))
      expect(key + ": " + measure.name, *value, {measure.min.value_or(-1e30), 1e30});
  expect_rising(key + ": curve", "steps", run.curve, &CurvePoint::step);
  for (const runs::MeasuresByDifficulty& measures : run.by_difficulty) {
    expect_rising(key + ": by_difficulty", "difficulties", measures.points,
                  &runs::MeasuresByDifficulty::Point::difficulty);
    for (const auto& point : measures.points) expect(key + ": by_difficulty: answers", point.answers, some_count);
  }
}

}  // namespace

void expect_sound(const Comparison& comparison) {
  expect_task(comparison.task);
  expect_data(comparison.data, comparison.task);
  expect_settings(comparison.settings);
  expect_one_of("match", comparison.match, {"parameters", "time", "tokens"});
  expect_mechanisms(comparison);
  for (const TuningTrial& trial : comparison.tuning) {
    if (comparison.plan(trial.mechanism) == nullptr)
      throw Error(expected_got("tuning", "trials of its mechanisms", trial.mechanism));
    expect("tuning: " + trial.mechanism + ": learning_rate", trial.learning_rate, some_amount);
    expect("tuning: " + trial.mechanism + ": steps", trial.steps, some_count);
  }
  for (const RunResult& run : comparison.runs) expect_run(comparison, run);
}

}  // namespace cogwheel::compare
