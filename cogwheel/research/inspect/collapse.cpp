// Representational collapse of the last position: what is left there of a difference between two long texts. Cog
// attention is said to keep more of it than softmax, for every length and in both tasks.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/interpret/representation_distance.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/collapse_prompts.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::inspect {
namespace {

struct TokenPair {
  std::vector<Token> one, other;

  // Tokens of the longer text between what both begin with and what both end with.
  std::size_t differing() const {
    const std::size_t shorter = std::min(one.size(), other.size());
    std::size_t front = 0, back = 0;
    while (front < shorter && one[front] == other[front]) ++front;
    while (back < shorter - front && one[one.size() - 1 - back] == other[other.size() - 1 - back]) ++back;
    return std::max(one.size(), other.size()) - front - back;
  }
};

TokenPair encoded_pair(const StudiedRun& run, const CollapseTask& task, std::int64_t n) {
  const auto texts = collapse_texts(task, static_cast<std::size_t>(n));
  const std::string what = run.name + ": “" + std::string(task.question) + "” and ones";
  return {run.tokenizer->encode(texts.first, what), run.tokenizer->encode(texts.second, what)};
}

void expect_that_encodes(const StudiedRun& run) {
  if (!run.tokenizer)
    throw UsageError(
        expected_got(run.name, "a run with a tokenizer of text", "one of the task " + run.config.task.name));
  for (const CollapseTask& task : collapse_tasks()) {
    const TokenPair pair = encoded_pair(run, task, 8);
    if (pair.one == pair.other)
      throw UsageError(expected_got(run.name, "a tokenizer that tells 0 from 1 and ones from more ones",
                                    "the same tokens for both texts of “" + std::string(task.name) + "”"));
  }
}

// Whether both tasks fit into the run's context.
bool has_room(const StudiedRun& run, std::int64_t n) {
  return std::all_of(collapse_tasks().begin(), collapse_tasks().end(), [&](const CollapseTask& task) {
    const TokenPair pair = encoded_pair(run, task, n);
    return static_cast<std::int64_t>(std::max(pair.one.size(), pair.other.size())) <= (*run.model)->longest_text();
  });
}

std::int64_t longest_with_room(const StudiedRun& run, std::int64_t longest) {
  if (has_room(run, longest)) return longest;
  std::int64_t fits = 0, too_long = longest;
  while (too_long - fits > 1) {
    const std::int64_t middle = (fits + too_long) / 2;
    (has_room(run, middle) ? fits : too_long) = middle;
  }
  return fits;
}

struct CollapseLengths {
  std::vector<std::int64_t> n;
  std::string shortened = {};  // why they are not those asked for
};

CollapseLengths lengths_for(const std::vector<std::int64_t>& asked, const std::vector<StudiedRun>& runs) {
  CollapseLengths lengths{.n = asked};
  std::int64_t room = asked.back();
  const StudiedRun* tightest = nullptr;
  for (const StudiedRun& run : runs)
    if (const std::int64_t fits = longest_with_room(run, room); fits < room) room = fits, tightest = &run;
  if (tightest == nullptr) return lengths;
  for (std::int64_t& n : lengths.n)
    n = std::llround(static_cast<double>(n) * static_cast<double>(room) / static_cast<double>(asked.back()));
  const bool rises = std::adjacent_find(lengths.n.begin(), lengths.n.end(), std::greater_equal<>()) == lengths.n.end();
  if (lengths.n.front() < 1 || !rises)
    throw UsageError(
        expected_got(tightest->name,
                     fmt::format("a context that holds the questions and {} different numbers of ones", asked.size()),
                     fmt::format("one of {} tokens, with room for {} ones", (*tightest->model)->longest_text(), room)));
  lengths.shortened = fmt::format("{} has room for {} ones only, not {}: all lengths are the same shares of that.",
                                  tightest->name, room, asked.back());
  return lengths;
}

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// One task: for each run, of each length.
struct TaskDistances {
  const CollapseTask* task;
  std::vector<std::vector<double>> to_shortest, relative, relative_largest;
};

TaskDistances measure_task(const CollapseTask& task, const std::vector<StudiedRun>& runs,
                           const std::vector<std::int64_t>& lengths, pages::TextTable& all) {
  TaskDistances found{&task, {}, {}, {}};
  for (const StudiedRun& run : runs) {
    tasks::language::LanguageModelImpl& model = **run.model;
    std::vector<double> to_shortest, relative, relative_largest;
    double shortest = 0;
    for (const std::int64_t n : lengths) {
      const TokenPair pair = encoded_pair(run, task, n);
      const auto last = [&](const std::vector<Token>& tokens) {
        std::vector<std::int64_t> numbers(tokens.begin(), tokens.end());
        return interpret::last_representation(model, torch::tensor(numbers, at::kLong));
      };
      const interpret::RepresentationDistance distance =
          interpret::representation_distance(last(pair.one), last(pair.other), model.options().heads);
      if (to_shortest.empty()) shortest = distance.blocks;
      to_shortest.push_back(shortest > 0 ? distance.blocks / shortest : no_number);
      relative.push_back(distance.relative_euclidean);
      relative_largest.push_back(distance.relative_largest);
      all.rows.push_back({run.name, model.options().mechanism, std::string(task.name), std::to_string(n),
                          std::to_string(pair.one.size()), std::to_string(pair.other.size()),
                          std::to_string(pair.differing()), pair.one.back() == pair.other.back() ? "yes" : "no",
                          study_number(distance.blocks), study_number(to_shortest.back()),
                          study_number(distance.euclidean), study_number(distance.relative_euclidean),
                          study_number(distance.largest), study_number(distance.relative_largest)});
    }
    found.to_shortest.push_back(to_shortest);
    found.relative.push_back(relative);
    found.relative_largest.push_back(relative_largest);
  }
  return found;
}

// A row for each task and kind of run, a column for each length.
pages::TextTable table_by_length(const std::string& title, const std::vector<TaskDistances>& tasks,
                                 const std::vector<RunGroup>& groups, const std::vector<std::int64_t>& lengths,
                                 std::vector<std::vector<double>> TaskDistances::*values) {
  pages::TextTable table{title, {"task", "model", "runs"}, {}};
  for (const std::int64_t n : lengths) table.columns.push_back(fmt::format("n = {}", n));
  for (const TaskDistances& task : tasks)
    for (const RunGroup& group : groups) {
      std::vector<std::string> row{std::string(task.task->name), group.name, std::to_string(group.runs.size())};
      for (std::size_t at = 0; at < lengths.size(); ++at) {
        std::vector<double> of_runs;
        for (const auto& run : task.*values) of_runs.push_back(run[at]);
        row.push_back(estimate_text(mean_of_group(group, of_runs)));
      }
      table.rows.push_back(std::move(row));
    }
  return table;
}

pages::LineChart chart_by_length(const std::string& title, const std::string& y, bool logarithmic,
                                 const TaskDistances& task, const std::vector<RunGroup>& groups,
                                 const std::vector<std::int64_t>& lengths,
                                 std::vector<std::vector<double>> TaskDistances::*values) {
  pages::LineChart chart{.title = title + ", " + std::string(task.task->name),
                         .x = {.title = "n"},
                         .y = {.title = y, .logarithmic = logarithmic},
                         .series = {},
                         .caption = "Higher: less collapse. Bars are intervals of 95 % over the runs of a kind."};
  const std::vector<double> x(lengths.begin(), lengths.end());
  // A bar that reaches below 0 has no place on a logarithmic axis.
  for (const RunGroup& group : groups) chart.series.push_back(group_series(group, x, task.*values, !logarithmic));
  if (logarithmic) chart.caption = "Higher: less collapse. Means over the runs of a kind.";
  return chart;
}

StudyResult measure_collapse(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  parameters.expect_rising("lengths");
  for (const StudiedRun& run : runs) expect_that_encodes(run);
  const CollapseLengths lengths = lengths_for(parameters.wholes("lengths"), runs);
  // What is left of a difference may be less than the rounding of float32.
  for (const StudiedRun& run : runs) (*run.model)->to(at::kDouble);
  const std::vector<RunGroup> groups = groups_of(runs);

  pages::TextTable all{"Every pair of texts",
                       {"run", "mechanism", "task", "n", "tokens", "tokens of the other", "tokens that differ",
                        "same last token", "mean of largest in blocks", "to the shortest", "euclidean",
                        "relative euclidean", "largest", "relative largest"},
                       {}};
  std::vector<TaskDistances> tasks;
  for (const CollapseTask& task : collapse_tasks()) tasks.push_back(measure_task(task, runs, lengths.n, all));

  StudyResult result;
  const std::string shortest = fmt::format("the difference at n = {}", lengths.n.front()),
                    to_shortest = "Difference, as a share of " + shortest,
                    relative = "Difference, as a share of the representation’s length",
                    relative_largest =
                        "Largest component of the difference, as a share of the representation’s largest";
  result.tables = {{"to_shortest", table_by_length(to_shortest, tasks, groups, lengths.n, &TaskDistances::to_shortest)},
                   {"relative", table_by_length(relative, tasks, groups, lengths.n, &TaskDistances::relative)},
                   {"relative_largest",
                    table_by_length(relative_largest, tasks, groups, lengths.n, &TaskDistances::relative_largest)},
                   {"pairs", all, runs.size() == 1}};
  for (const TaskDistances& task : tasks) {
    std::vector<pages::Told> kept;
    for (const RunGroup& group : groups) {
      std::vector<double> last;
      for (const auto& run : task.to_shortest) last.push_back(run.back());
      const double mean = mean_of_group(group, last).mean;
      kept.push_back({group.said, mean, fmt::format("{:.2g}", mean)});
    }
    const std::string text = pages::told(kept);
    result.answer +=
        fmt::format("{} {} {}", result.answer.empty() ? "" : ",", text.empty() ? "nothing comparable" : text,
                    task.task->zero ? "where a zero is to be found" : "where ones are to be counted");
    result.charts.push_back(
        chart_by_length("Kept of " + shortest, "share", false, task, groups, lengths.n, &TaskDistances::to_shortest));
    result.charts.push_back(chart_by_length("‖y − y′‖ / ‖y‖", "relative difference", true, task, groups, lengths.n,
                                            &TaskDistances::relative));
  }
  for (const TaskDistances& task : tasks) {
    const std::string name = task.task->zero ? "zero" : "ones";
    NumbersOfRuns kept{.name = name + "_kept", .values = {}}, relative_at_end{.name = name + "_relative", .values = {}};
    for (std::size_t run = 0; run < runs.size(); ++run) {
      kept.values.push_back(task.to_shortest[run].back());
      relative_at_end.values.push_back(task.relative[run].back());
    }
    result.numbers.insert(result.numbers.end(), {std::move(kept), std::move(relative_at_end)});
  }
  result.answer = fmt::format("What is left of the difference between two texts, from n = {} to {}:{}.",
                              lengths.n.front(), lengths.n.back(), result.answer);
  if (!lengths.shortened.empty()) result.notes.push_back(lengths.shortened);
  result.remarks.insert(
      result.remarks.end(),
      {{"Two readings:",
        "the release of the paper of Cog attention takes the largest |y − y′| of each head’s components, the mean over "
        "heads, and divides by that of "
        "the shortest texts; it says how a difference fades, not how large it was. ‖y − y′‖ / ‖y‖ compares models at "
        "one length. They may disagree about which model is better."},
       {"The released bars of the first task tie at n = 2,000,",
        "where the paper of Cog attention (Lv et al. 2024) says that Cog is higher for every n."},
       {"Tokens, not digits:",
        "tokenizers of merged pieces (BPE) write runs of ones as a few tokens, and one 1 more may change them all. "
        "The table of pairs counts tokens, those that differ, and whether the last one is the same."},
       {"A second text of another length:",
        "counting ones compares the last of n + 1 ones with the last of n: with positions that are learned, "
        "another row of the table is read, which is a difference that attention need not keep."},
       {"Beyond training:",
        "runs of ones are like nothing that most models were trained on, and a model without a limit of its text "
        "may be asked for more tokens than its training window had. Positions near the end of a window are rare in "
        "training, so the longest texts "
        "that a context holds are a case of their own."}});
  return result;
}

}  // namespace

StudyEntry collapse_study() {
  return {.name = "collapse",
          .title = "What is left at the end of a long text",
          .question = "Two long texts differ in one digit: how far apart are they still at their last token?",
          .parameters = {{{.name = "lengths",
                           .values = {200, 400, 600, 800, 1000, 2000},
                           .range = {1, 1e6},
                           .meaning = "n, the number of ones; where a context is too short, shares of what it holds",
                           .list = true}}},
          .run = measure_collapse,
          .numbers = {{"zero_kept",
                       "of the difference at the shortest text, what is left at the longest, where a zero "
                       "is to be found"},
                      {"zero_relative", "‖y − y′‖ / ‖y‖ at the longest, where a zero is to be found"},
                      {"ones_kept", "the first where ones are to be counted"},
                      {"ones_relative", "the second where ones are to be counted"}}};
}

}  // namespace cogwheel::inspect
