#include "cogwheel/cli/harness_evaluation.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cogwheel/cli/number_option.h"
#include "cogwheel/compare/harness/lm_eval_scores.h"
#include "cogwheel/compare/harness/scores_page.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

// The folder of the page, and whether that is the run's own.
struct PagePlace {
  fs::path folder;
  bool of_run = false;
};

PagePlace page_place(const HarnessPlace& place) {
  std::error_code problem;
  if (place.runs.size() == 1) {
    const fs::path run = runs::RunFolder::open(place.runs.front()).path();
    if (place.out.empty() || fs::equivalent(place.out, run, problem)) {
      expect_makable(run);
      return {run, true};
    }
  }
  if (place.out.empty()) {
    expect_makable(".");
    runs::expect_no_run_file(runs::harness_page_file, "evaluate: working folder without --out");
    // Each keeps its own scores.
    for (const std::string& run : place.runs) expect_makable(runs::RunFolder::open(run).path());
    return {"."};
  }
  const fs::path out = place.out;
  expect_makable(out);
  runs::expect_no_run_file(out, "evaluate: --out");
  for (const char* name : {runs::harness_json_file, runs::harness_page_file})
    runs::expect_no_run_file(out / name, "evaluate: --out");
  return {out};
}

std::string command_of(const HarnessArguments& arguments, const HarnessPlace& place) {
  std::string command = "cogwheel evaluate";
  for (const std::string& run : place.runs) command += " " + shell_word(run);
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", name, shell_word(value));
  };
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : ""; };
  add("--harness", *arguments.tasks);
  add("--harness-data", arguments.data);
  add("--num-fewshot", number(arguments.shots));
  add("--limit", number(arguments.limit));
  add("--batch", number(arguments.batch));
  add("--seed", number(place.seed));
  return command;
}

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    const std::size_t first = std::min(name.find_first_not_of(' '), name.size());
    names.push_back(name.substr(first, name.find_last_not_of(' ') + 1 - first));
    begin = end + 1;
  }
  return names;
}

compare::HarnessOptions options_of(const HarnessArguments& arguments, const HarnessPlace& place) {
  compare::HarnessOptions options{.runs = {place.runs.begin(), place.runs.end()},
                                  .names = {},
                                  .folder = {},
                                  .data = arguments.data,
                                  .shots = arguments.shots,
                                  .limit = arguments.limit,
                                  .definitions = place.definitions.lines,
                                  .mechanism_files = place.definitions.files};
  // Data of sst2 may lie in a folder of this name, where it is the task that is meant.
  std::error_code problem;
  options.names = names_of(*arguments.tasks);
  const std::vector<std::string> known = compare::harness_task_names();
  const bool named = std::all_of(options.names.begin(), options.names.end(), [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
  if (!named && fs::is_directory(*arguments.tasks, problem)) {
    options.folder = *arguments.tasks;
    options.names.clear();
  }
  if (arguments.batch) options.batch = *arguments.batch;
  if (place.seed) options.seed = *place.seed;
  return options;
}

}  // namespace

void HarnessArguments::expect_none() const {
  const auto refuse = [](const char* name, bool given_one) {
    if (given_one) throw UsageError(expected_got(std::string("evaluate: ") + name, "--harness with it", "none"));
  };
  refuse("--harness-data", !data.empty());
  refuse("--num-fewshot", shots.has_value());
  refuse("--limit", limit.has_value());
  refuse("--batch", batch.has_value());
  refuse("--json", json);
}

void add_harness_options(CLI::App& command, HarnessArguments& arguments) {
  command
      .add_option("--harness", arguments.tasks,
                  "scores of tasks by lm-eval instead: arc_easy, arc_challenge, piqa, social_iqa, mrpc, sst2, mnli and "
                  "continuation, several with commas, or a folder of lm-eval's YAML files, whose code runs")
      ->type_name("NAMES|FOLDER");
  command.add_option("--harness-data", arguments.data, "their data: DIR/<task>/<split>.jsonl or .parquet")
      ->type_name("DIR");
  add_number(command, "--num-fewshot", arguments.shots, Range<std::int64_t>{0, 1000},
             "of --harness: examples before a question; by default both 0 and 1 of named tasks, of others theirs")
      ->type_name("K");
  add_number(command, "--limit", arguments.limit, Range<std::int64_t>{1, 1 << 30},
             "of --harness: the first questions of a task alone")
      ->type_name("N");
  add_number(command, "--batch", arguments.batch, Range<std::int64_t>{1, 1 << 16},
             "of --harness: texts of a pass; by default 8")
      ->type_name("N");
  command.add_flag("--json", arguments.json, "of --harness: print scores, differences and every question as JSON");
}

void evaluate_by_harness(const HarnessArguments& arguments, const HarnessPlace& place) {
  const PagePlace page = page_place(place);
  register_definitions(place.definitions);
  const compare::HarnessScores scores = compare::lm_eval_scores(options_of(arguments, place));
  const std::string all = compare::scores_to_json(scores);
  make_folder(page.folder);
  const fs::path file = page.folder / runs::harness_page_file;
  write_file(file, compare::scores_page(scores, command_of(arguments, place), utc_now(), COGWHEEL_VERSION));
  if (place.out.empty() || page.of_run)
    for (std::size_t run = 0; run < scores.runs.size(); ++run)
      write_file(runs::RunFolder::open(scores.runs[run].folder).path() / runs::harness_json_file,
                 compare::scores_to_json(scores, run));
  else
    write_file(page.folder / runs::harness_json_file, all);
  if (arguments.json) {
    fmt::print("{}", all);
  } else {
    for (std::size_t run = 0; run < scores.runs.size(); ++run)
      fmt::print("{}{}\n", scores.runs.size() > 1 ? scores.runs[run].name + "\n" : "",
                 pages::table_text(compare::scores_table(scores, run)));
    fmt::print("{}\n{}\n", compare::scores_verdict(scores), file.lexically_normal().string());
  }
  // After everything else is written.
  for (const compare::ScoredRun& run : scores.runs)
    for (const compare::TaskScore& score : run.scores)
      if (!score.problem.empty()) throw Error(fmt::format("{}: {}", run.name, score.problem));
}

}  // namespace cogwheel::cli
