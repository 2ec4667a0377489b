#include <nlohmann/json.hpp>

#include "cogwheel/compare/harness/scores_page.h"

namespace cogwheel::compare {
namespace {

using ScoresJson = nlohmann::ordered_json;

ScoresJson or_null(const std::optional<double>& value) { return value ? ScoresJson(*value) : ScoresJson(nullptr); }

ScoresJson task_json(const HarnessTask& task) {
  return {{"task", task.name},
          {"shots", task.shots},
          {"kind", task.kind},
          {"chance", or_null(task.chance)},
          {"commonest_answer", or_null(task.commonest)}};
}

ScoresJson run_json(const HarnessScores& scores, const ScoredRun& run) {
  ScoresJson json{{"run", run.folder}, {"mechanism", run.mechanism}, {"parameters", run.parameters}};
  for (std::size_t task = 0; task < run.scores.size(); ++task) {
    const TaskScore& score = run.scores[task];
    ScoresJson metrics = ScoresJson::array();
    for (const MetricScore& metric : score.metrics)
      metrics.push_back({{"name", metric.name},
                         {"value", or_null(metric.value)},
                         {"error", or_null(metric.error)},
                         {"higher_is_better", metric.higher_is_better}});
    json["scores"].push_back({{"task", scores.tasks[task].name},
                              {"shots", scores.tasks[task].shots},
                              {"questions", score.questions},
                              {"metrics", metrics},
                              {"samples", ScoresJson::parse(score.samples)}});
    if (!score.problem.empty()) json["scores"].back()["problem"] = score.problem;
  }
  return json;
}

ScoresJson head_json(const HarnessScores& scores) {
  ScoresJson json{{"schema", 1},
                  {"lm_eval", scores.lm_eval},
                  {"seed", scores.seed},
                  {"limit", scores.limit ? ScoresJson(*scores.limit) : ScoresJson(nullptr)},
                  {"tasks", ScoresJson::array()},
                  {"runs", ScoresJson::array()}};
  for (const HarnessTask& task : scores.tasks) json["tasks"].push_back(task_json(task));
  return json;
}

std::string text_of(const ScoresJson& json) {
  return json.dump(-1, ' ', false, ScoresJson::error_handler_t::replace) + "\n";
}

}  // namespace

std::string scores_to_json(const HarnessScores& scores, std::size_t run) {
  ScoresJson json = head_json(scores);
  json["runs"].push_back(run_json(scores, scores.runs[run]));
  return text_of(json);
}

std::string scores_to_json(const HarnessScores& scores) {
  ScoresJson json = head_json(scores);
  for (const ScoredRun& run : scores.runs) json["runs"].push_back(run_json(scores, run));
  json["differences"] = ScoresJson::array();
  for (const ScoreDifference& each : scores.differences)
    json["differences"].push_back({{"run", scores.runs[each.run].folder},
                                   {"task", scores.tasks[each.task].name},
                                   {"shots", scores.tasks[each.task].shots},
                                   {"metric", scores.runs[each.run].scores[each.task].metrics.front().name},
                                   {"difference", each.difference},
                                   {"interval", or_null(each.interval)},
                                   {"only_first_right", each.only_first},
                                   {"only_this_right", each.only_this},
                                   {"p", or_null(each.p_value)},
                                   {"p_adjusted", or_null(each.p_adjusted)}});
  return text_of(json);
}

}  // namespace cogwheel::compare
