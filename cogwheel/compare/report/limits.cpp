#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/report/sections.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::compare {
namespace {

std::string limit(const std::string& title, const std::string& text) {
  return fmt::format("      <li><strong>{}</strong> {}</li>\n", pages::escape_html(title), pages::escape_html(text));
}

// If the best of the rates tried is the lowest or highest, a better one may lie beyond.
std::string edge_of_the_search(const Comparison& comparison) {
  std::string names;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    double low = 0, high = 0, chosen = 0;
    for (const TuningTrial& trial : comparison.tuning) {
      if (trial.mechanism != plan.name) continue;
      low = low == 0 ? trial.learning_rate : std::min(low, trial.learning_rate);
      high = std::max(high, trial.learning_rate);
      if (trial.chosen) chosen = trial.learning_rate;
    }
    if (low < high && (chosen == low || chosen == high))
      names += (names.empty() ? "" : ", ") + name_in_sentence(comparison, plan.name);
  }
  if (names.empty()) return "";
  return limit(
      "The best learning rate of each.",
      fmt::format("The best of the rates tried is the lowest or highest, so a better one may lie beyond: {}.", names));
}

std::string small_differences(const Comparison& comparison) {
  const SummaryRow* widest = nullptr;
  for (const SummaryRow& row : comparison.summary)
    if (row.difference_interval && (widest == nullptr || *row.difference_interval > *widest->difference_interval))
      widest = &row;
  const bool compared = std::any_of(comparison.summary.begin(), comparison.summary.end(),
                                    [](const SummaryRow& row) { return row.difference.has_value(); });
  if (!compared) return "";
  if (widest == nullptr)
    return limit(
        "Whether it is more than chance.",
        std::any_of(comparison.summary.begin(), comparison.summary.end(),
                    [](const SummaryRow& row) { return row.without_spread(); })
            ? "The chance variation of a difference cannot be estimated where it is the same in every seed."
            : "The chance variation of a difference cannot be estimated from one seed. --seeds 3 or more gives "
              "intervals.");
  return limit("Small differences.",
               fmt::format("With {}, a difference below about {} can go undetected where seeds scatter as in {}. More "
                           "seeds reduce that.",
                           pages::counted(widest->pairs, "seed"),
                           pages::with_powers(fmt::format("{:.2g}", *widest->difference_interval)),
                           name_in_sentence(comparison, widest->mechanism)));
}

std::string shortness(const Comparison& comparison) {
  if (!comparison.early_in_training()) return "";
  const MechanismPlan* base = comparison.plan(comparison.baseline);
  const std::int64_t tokens = base->steps * comparison.tokens_per_step();
  return limit("What comes after the beginning.",
               fmt::format("A run saw {0} {1}s, fewer than its {2} parameters: early in training. --steps {3} comes to "
                           "one {1} for each parameter.",
                           pages::rounded_count(tokens), comparison.data.item(), pages::rounded_count(base->parameters),
                           (base->parameters * base->steps + tokens - 1) / tokens));
}

// The improvement of the baseline between its last two evaluations, mean over seeds.
std::string longer_training(const Comparison& comparison) {
  double change = 0, count = 0;
  std::int64_t steps = 0;
  for (const RunResult* run : comparison.runs_of(comparison.baseline)) {
    if (run->status != RunStatus::done || run->curve.size() < 2) continue;
    const CurvePoint &last = run->curve.back(), &before = run->curve[run->curve.size() - 2];
    const std::string& measure = comparison.task.decisive().name;
    const double *late = runs::find_value(last.measured, measure), *early = runs::find_value(before.measured, measure);
    if (late == nullptr || early == nullptr) continue;
    change += comparison.better(*late, *early) ? std::abs(*early - *late) : -std::abs(*early - *late);
    steps = last.step - before.step;
    ++count;
  }
  if (count == 0 || change / count < 0.001) return "";
  return limit(
      "Where longer training leads.",
      fmt::format("In the last {} the {} of {} still {} by {:.2g}. An order seen this early can change; --steps "
                  "sets the length.",
                  steps == 1 ? "step" : pages::grouped(steps) + " steps", comparison.task.decisive().title,
                  name_in_sentence(comparison, comparison.baseline),
                  comparison.task.decisive().lower_is_better ? "fell" : "rose", change / count));
}

// Parameters of the baseline, of several widths at the last.
std::int64_t largest_baseline(const Comparison& comparison) {
  std::int64_t parameters = 0;
  for (const MechanismPlan& plan : comparison.mechanisms)
    if (comparison.is_base(plan.name)) parameters = std::max(parameters, plan.parameters);
  return parameters;
}

std::string unmatched(const Comparison& comparison) {
  if (comparison.match == "tokens")
    return limit("Mechanisms at equal size.",
                 "Tokens were matched, not parameters: a larger model may win by its size alone.");
  if (comparison.match == "time")
    return limit("Mechanisms at equal data.",
                 "Training time was matched at the rates measured on this machine: a faster mechanism saw more data.");
  return "";
}

}  // namespace

std::string limits_html(const Comparison& comparison) {
  const Comparison::Settings& settings = comparison.settings;
  const MechanismPlan* base = comparison.plan(comparison.baseline);
  const std::string unit = comparison.data.item();
  const auto tokens = base->steps * comparison.tokens_per_step();
  std::string html;
  if (comparison.finished_runs() < comparison.planned_runs())
    html += limit("How the missing runs would have ended.",
                  fmt::format("{} of {} runs finished. The others count nowhere in the means, and a mechanism that "
                              "diverges in some seeds looks better here than it is.",
                              comparison.finished_runs(), comparison.planned_runs()));
  html += limit("Whether it holds at scale.",
                fmt::format("{}{} parameters and {} {}s; an order found at this size can reverse at a larger one.",
                            settings.widths.empty() ? "" : "Up to ", pages::rounded_count(largest_baseline(comparison)),
                            pages::rounded_count(tokens), unit));
  html += comparison.data.bytes > 0
              ? comparison.task.counted == "tokens"
                    ? limit("Whether it holds for other text.",
                            fmt::format("One corpus, as {}s. Other text or other tokens may differ.", unit))
                    : limit("Whether it holds for other data.",
                            fmt::format("One set of {}. Others may differ.", comparison.task.counted))
              : limit("Whether it holds for other tasks.",
                      fmt::format("One task: {}. It does not require the same abilities as a text.",
                                  comparison.task.summary));
  if (settings.tune == 0 && comparison.mechanisms.size() > 1)
    html +=
        limit("Who wins when each is tuned.",
              fmt::format("One learning rate served {}. --tune 4 searches it for each with equal trials.",
                          comparison.mechanisms.size() == 2
                              ? "both"
                              : "all " + pages::number_word(static_cast<std::int64_t>(comparison.mechanisms.size()))));
  html += edge_of_the_search(comparison);
  html += small_differences(comparison);
  html += shortness(comparison);
  html += longer_training(comparison);
  html += unmatched(comparison);
  const std::int64_t context = runs::common(comparison.configuration.model).context;
  if (comparison.task.counted == "tokens" && context > 0 && context < 1024)
    html += limit("Long contexts.", fmt::format("{} {}s are visible. Nothing here shows recall, length or sinks "
                                                "beyond that.",
                                                context, unit));
  html += limit(
      "Speed elsewhere.",
      fmt::format("{} per second hold for {} with {} and this size, and for the other load on the machine{}.",
                  pages::capitalised(comparison.task.counted),
                  comparison.machine.device == "cpu" ? "this CPU" : comparison.machine.device + " of this machine",
                  pages::counted(comparison.machine.threads, "thread"),
                  comparison.machine.workers == 0
                      ? ""
                      : fmt::format(", where up to {} trained at the same time and others may have joined",
                                    pages::counted(comparison.machine.workers, "worker"))));
  return html;
}

}  // namespace cogwheel::compare
