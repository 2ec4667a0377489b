#include "cogwheel/compare/harness/scores_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "cogwheel/compare/harness/published_scores.h"
#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/pages/document.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::compare {
namespace {

constexpr const char* nothing = "–";

// Shares, which pages show in per cent, as papers do.
bool is_share(const std::string& metric) {
  constexpr std::array<std::string_view, 4> shares{"acc", "acc_norm", "exact_match", "f1"};
  return std::find(shares.begin(), shares.end(), metric.substr(0, metric.find(','))) != shares.end();
}

std::string metric_text(const std::string& metric) { return metric + (is_share(metric) ? ", %" : ""); }

std::string value_text(double value, const std::string& metric) {
  if (is_share(metric)) return pages::fixed(100 * value, 2);
  // The perplexity of a model that has learned nothing may have hundreds of digits.
  return std::abs(value) < 1e6 ? pages::fixed(value, 4) : fmt::format("{:.6g}", value);
}

std::string with_error(const MetricScore& score) {
  if (!score.value) return nothing;
  return value_text(*score.value, score.name) + (score.error ? " ± " + value_text(*score.error, score.name) : "");
}

std::string share_or_nothing(const std::optional<double>& share) {
  return share ? pages::fixed(100 * *share, 2) : nothing;
}

std::string p_text(const std::optional<double>& p) {
  return !p ? nothing : *p < 0.0001 ? "< 0.0001" : pages::fixed(*p, 4);
}

std::string name_of(const HarnessTask& task) { return fmt::format("{} ({}-shot)", task.name, task.shots); }

// What chance and the commonest answer are shares of.
bool is_accuracy(const std::string& metric) { return metric == "acc" || metric == "acc_norm"; }

// By so much that its error does not explain it, nor that of the commonest answer on other questions: of few questions
// that are all answered right, the score's own error is 0.
bool above_commonest(const HarnessTask& task, const TaskScore& scored) {
  const MetricScore& score = scored.metrics.front();
  if (!task.commonest || !score.value || !is_accuracy(score.name) || scored.questions == 0) return false;
  const double of_commonest =
      std::sqrt(*task.commonest * (1 - *task.commonest) / static_cast<double>(scored.questions));
  return *score.value - 2 * std::max(score.error.value_or(0), of_commonest) > *task.commonest;
}

std::vector<std::string> tasks_above_commonest(const HarnessScores& scores, const ScoredRun& run) {
  std::vector<std::string> above;
  for (std::size_t task = 0; task < scores.tasks.size(); ++task)
    if (above_commonest(scores.tasks[task], run.scores[task])) above.push_back(name_of(scores.tasks[task]));
  return above;
}

std::string choices_text(const HarnessScores& scores) {
  const auto count = std::count_if(scores.tasks.begin(), scores.tasks.end(),
                                   [](const HarnessTask& task) { return task.commonest.has_value(); });
  return count == 0 ? "" : pages::counted(count, "multiple-choice task");
}

constexpr const char* commonest_answer = "two standard errors above always giving the commonest answer";

std::string run_verdict(const HarnessScores& scores) {
  const std::string choices = choices_text(scores);
  if (choices.empty()) return fmt::format("{} scored.", pages::counted(std::ssize(scores.tasks), "task"));
  const std::vector<std::string> above = tasks_above_commonest(scores, scores.runs[0]);
  if (above.empty()) return fmt::format("On none of {} is the score {}.", choices, commonest_answer);
  return fmt::format("On {} of {} the score is {}: {}.", above.size(), choices, commonest_answer,
                     fmt::join(above, ", "));
}

// Of several runs, which have learned what any of the tasks asks for.
std::string learned_verdict(const HarnessScores& scores) {
  if (choices_text(scores).empty()) return "";
  std::string text;
  for (const ScoredRun& run : scores.runs)
    if (const std::vector<std::string> above = tasks_above_commonest(scores, run); !above.empty())
      text += fmt::format(" {} is {} on {}.", run.name, commonest_answer, fmt::join(above, ", "));
  return text.empty() ? fmt::format(" No run is {} on any task.", commonest_answer) : text;
}

std::string differences_verdict(const HarnessScores& scores) {
  std::string text;
  for (std::size_t run = 1; run < scores.runs.size(); ++run) {
    std::vector<std::string> better, worse;
    for (const ScoreDifference& each : scores.differences) {
      if (each.run != run || !each.p_adjusted || *each.p_adjusted >= significance_level) continue;
      const bool higher = scores.runs[run].scores[each.task].metrics.front().higher_is_better;
      ((each.difference > 0) == higher ? better : worse).push_back(name_of(scores.tasks[each.task]));
    }
    const std::string& name = scores.runs[run].name;
    text += text.empty() ? "" : " ";
    if (better.empty() && worse.empty()) {
      text += fmt::format("No difference between {} and {} is clear.", name, scores.runs[0].name);
      continue;
    }
    text += fmt::format("{} is", name);
    if (!better.empty())
      text += fmt::format(" clearly better than {} on {}", scores.runs[0].name, fmt::join(better, ", "));
    if (!worse.empty())
      text += fmt::format("{} clearly worse{} on {}", better.empty() ? "" : " and",
                          better.empty() ? " than " + scores.runs[0].name : "", fmt::join(worse, ", "));
    text += ".";
  }
  return text;
}

bool has_published(const HarnessScores& scores) {
  return std::any_of(scores.tasks.begin(), scores.tasks.end(), [](const HarnessTask& task) {
    return std::find(published_tasks.begin(), published_tasks.end(), task.name) != published_tasks.end();
  });
}

pages::DocumentSection differences_section(const HarnessScores& scores) {
  pages::TextTable table{.title = {},
                         .columns = {"run", "task", "metric", "difference", "only " + scores.runs[0].name + " right",
                                     "only the run right", "p", "p after Holm"},
                         .rows = {}};
  for (const ScoreDifference& each : scores.differences) {
    const std::string& metric = scores.runs[each.run].scores[each.task].metrics.front().name;
    const bool counts = each.only_first + each.only_this > 0;
    const double scale = is_share(metric) ? 100 : 1;
    table.rows.push_back({scores.runs[each.run].name, name_of(scores.tasks[each.task]), metric_text(metric),
                          pages::signed_fixed(scale * each.difference, is_share(metric) ? 2 : 4) +
                              (each.interval ? " ± " + value_text(*each.interval, metric) : ""),
                          counts ? std::to_string(each.only_first) : nothing,
                          counts ? std::to_string(each.only_this) : nothing, p_text(each.p_value),
                          p_text(each.p_adjusted)});
  }
  return {
      .title = "Differences to " + scores.runs[0].name,
      .lead = fmt::format("Paired by question. p below {} after Holm's correction over all of these is called clear.",
                          significance_level),
      .tables = {std::move(table)},
      .remarks = {{"Yes and no", "are compared by McNemar's exact test, other numbers by the paired t test."},
                  {"The interval", "is that of the t distribution, as wide as Holm's procedure decides at."}}};
}

pages::DocumentSection published_section() {
  pages::TextTable table{.title = {}, .columns = {"model"}, .rows = {}};
  for (const std::string_view task : published_tasks)
    table.columns.push_back(fmt::format("{}{}", task, published_shots(task) > 0 ? " (1-shot)" : ""));
  for (const PublishedScores& model : published_scores()) {
    table.rows.push_back({fmt::format("{}, {}", model.name, model.size)});
    for (const double score : model.percentages) table.rows.back().push_back(pages::fixed(score, 2));
  }
  return {.title = "What the paper of Cog reports",
          .lead =
              "Accuracy in per cent. Models of 141M were trained on 100 billion tokens, of 600M on 250 billion, of 1B "
              "on 50 "
              "billion.",
          .tables = {std::move(table)},
          .remarks = {{"SST-2 and MNLI of 1B",
                       "are exchanged here. As the paper prints them, both models are at a third of "
                       "SST-2, a choice of two; exchanged, Cogformer is ahead on SST-2 and behind on "
                       "MNLI. The paper's averages do not change."},
                      {"Examples",
                       "The paper says one-shot of MRPC, SST-2 and MNLI and nothing of the other tasks, which "
                       "stand beside zero-shot scores here."},
                      {"Figure 8", "shows models of 600M after 100, 150 and 200 billion tokens, without numbers."}}};
}

std::vector<std::pair<std::string, std::string>> problems_of(const ScoredRun& run) {
  std::vector<std::pair<std::string, std::string>> remarks;
  for (const TaskScore& score : run.scores)
    if (!score.problem.empty()) remarks.emplace_back("Not scored", score.problem);
  return remarks;
}

}  // namespace

pages::TextTable scores_table(const HarnessScores& scores, std::size_t run) {
  pages::TextTable table{.title = {},
                         .columns = {"task", "questions", "metric", "paper", "here", "chance", "commonest answer"},
                         .rows = {}};
  const ScoredRun& scored = scores.runs[run];
  for (std::size_t index = 0; index < scores.tasks.size(); ++index) {
    const HarnessTask& task = scores.tasks[index];
    bool first = true;
    for (const MetricScore& metric : scored.scores[index].metrics) {
      const bool accuracy = is_accuracy(metric.name);
      table.rows.push_back({first ? name_of(task) : "", first ? pages::grouped(scored.scores[index].questions) : "",
                            metric_text(metric.name),
                            metric.name == "acc"
                                ? published_scores_like(scored.mechanism, task.name, task.shots).value_or(nothing)
                                : nothing,
                            with_error(metric), accuracy ? share_or_nothing(task.chance) : nothing,
                            accuracy ? share_or_nothing(task.commonest) : nothing});
      first = false;
    }
  }
  return table;
}

std::string scores_verdict(const HarnessScores& scores) {
  return scores.runs.size() == 1 ? run_verdict(scores) : differences_verdict(scores) + learned_verdict(scores);
}

std::string scores_page(const HarnessScores& scores, const std::string& command, const std::string& created,
                        const std::string& version) {
  std::vector<std::string> names;
  for (const ScoredRun& run : scores.runs) names.push_back(run.name);
  pages::Document document{.title = fmt::format("{}: scores of tasks", fmt::join(names, ", ")),
                           .kind = "Cogwheel evaluation",
                           .created = created,
                           .verdict = scores_verdict(scores),
                           .facts = {},
                           .sections = {},
                           .command = command,
                           .written_by = "cogwheel evaluate --harness",
                           .version = version};
  for (const ScoredRun& run : scores.runs)
    document.facts.push_back({run.name, run.title, pages::rounded_count(run.parameters) + " parameters"});
  document.facts.push_back({"Asked by", "lm-eval " + scores.lm_eval,
                            scores.limit
                                ? fmt::format("the first {} of each", pages::counted(*scores.limit, "question"))
                                : "every question"});
  if (scores.runs.size() > 1) document.sections.push_back(differences_section(scores));
  for (std::size_t run = 0; run < scores.runs.size(); ++run)
    document.sections.push_back(
        {.title = scores.runs.size() == 1 ? "Scores" : scores.runs[run].name,
         .lead =
             run == 0 ? "With their standard errors, beside guessing and the commonest answer of these questions." : "",
         .tables = {scores_table(scores, run)},
         .remarks = problems_of(scores.runs[run])});
  if (has_published(scores)) document.sections.push_back(published_section());
  return pages::document_page(document);
}

}  // namespace cogwheel::compare
