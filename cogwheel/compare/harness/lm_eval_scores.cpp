#include "cogwheel/compare/harness/lm_eval_scores.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cogwheel/attention/authoring/definition.h"
#include "cogwheel/compare/harness/continuation_questions.h"
#include "cogwheel/compare/harness/published_scores.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/program_until_stopped.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/model_entry.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::compare {
namespace {

namespace fs = std::filesystem;
using HarnessJson = nlohmann::ordered_json;

// What is missing is told without importing torch, which takes seconds. Nothing outlives the process that asks:
// prctl(1) is PR_SET_PDEATHSIG. What the module itself catches are problems of tasks; here those of its imports.
constexpr std::string_view program =
    "import ctypes, importlib.util, json, runpy, signal\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
    "found = None\n"
    "missing = [name for name in ('lm_eval', 'torch', 'cogwheel') if importlib.util.find_spec(name) is None]\n"
    "if missing:\n"
    "    found = {'missing': missing[0], 'python': sys.executable}\n"
    "else:\n"
    "    try:\n"
    "        runpy.run_module('cogwheel.harness', run_name='__main__', alter_sys=True)\n"
    "    except Exception as error:\n"
    "        of_ours = str(error).startswith('cogwheel.harness: ')\n"
    "        said = f'Python packages that can be imported, got {type(error).__name__}: {error}'\n"
    "        found = {'problem': str(error) if of_ours else 'evaluate: --harness: expected ' + said}\n"
    "if found:\n"
    "    with open(sys.argv[2], 'w') as answer:\n"
    "        json.dump(found, answer)\n";

// Held-out text of which questions are made, at most: questions are at random places in any case.
constexpr std::int64_t continuation_bytes = 4 << 20;

void expect_names(const HarnessOptions& options) {
  if (!options.folder.empty()) return;
  const std::vector<std::string> known = harness_task_names();
  for (auto name = options.names.begin(); name != options.names.end(); ++name) {
    if (std::find(known.begin(), known.end(), *name) == known.end())
      throw UsageError(expected_got("evaluate: --harness", expected_names(*name, known) + ", or a folder", *name));
    if (std::find(options.names.begin(), name, *name) != name)
      throw UsageError(expected_got("evaluate: --harness", "each task once", *name + " again"));
    if (*name != continuation_task && options.data.empty())
      throw UsageError(expected_got("evaluate: --harness-data", "a folder with data of " + *name, ""));
  }
}

struct LoadedRun {
  ScoredRun scored;
  runs::RunConfig config;
  fs::path folder;
};

// Names tell runs apart: where two are the same, folders do.
void name_apart(std::vector<LoadedRun>& runs) {
  std::map<std::string, int> counts;
  for (const LoadedRun& run : runs) ++counts[run.scored.name];
  for (LoadedRun& run : runs)
    if (counts[run.scored.name] > 1) run.scored.name = run.scored.folder;
}

void expect_each_once(const std::vector<fs::path>& runs) {
  std::error_code problem;
  for (auto run = runs.begin(); run != runs.end(); ++run)
    if (std::any_of(runs.begin(), run, [&](const fs::path& other) { return fs::equivalent(other, *run, problem); }))
      throw UsageError(expected_got("evaluate", "each run once", run->string() + " again"));
}

LoadedRun loaded(const fs::path& path) {
  const runs::RunFolder folder = runs::RunFolder::open(path);
  runs::RunConfig config = runs::load_config(folder.config_path());
  if (config.model.entry().name != "language_model")
    throw UsageError(expected_got("evaluate: --harness", "runs of language models",
                                  fmt::format("{} of the task {}", path.string(), config.task.name)));
  if (!path_exists(folder.tokenizer_path()))
    throw UsageError(expected_got(path.string(), "a run that reads text", "one without a tokenizer"));
  ScoredRun run{.folder = path.string(),
                .name = runs::name_of_run(path),
                .mechanism = runs::common(config.model).mechanism,
                .title = runs::mechanism_text(config.model, "model.mechanism").title,
                .parameters = runs::parameter_count(config.model)};
  return {std::move(run), std::move(config), folder.path()};
}

// The same questions for all runs, of a text that all hold out.
void write_continuation(const std::vector<LoadedRun>& runs, const HarnessOptions& options, const fs::path& file) {
  std::string text;
  for (const LoadedRun& run : runs) {
    const std::string of_run = runs::make_task(run.config, run.folder)->held_out_text(continuation_bytes);
    if (of_run.empty())
      throw UsageError(expected_got("continuation: " + run.scored.folder, "a run that holds out text",
                                    "one of the task " + run.config.task.name));
    // A text is cut at a token, which is another place for another tokenizer.
    const bool first = &run == &runs.front();
    text = shared_text(first ? of_run : text, of_run);
    if (text.empty() && !first)
      throw UsageError(expected_got("continuation", "runs of one text or corpus, which hold out the same",
                                    run.scored.folder + ", which is of another"));
  }
  std::string lines;
  const std::int64_t count = std::min(continuation_count, options.limit.value_or(continuation_count));
  for (const ContinuationQuestion& question : continuation_questions(text, count, options.seed))
    lines += HarnessJson{{"context", question.context}, {"choices", question.choices}, {"label", question.label}}.dump(
                 -1, ' ', false, HarnessJson::error_handler_t::replace) +
             "\n";
  make_folder(file.parent_path());
  write_file(file, lines);
}

HarnessJson request(const HarnessOptions& options, const std::vector<LoadedRun>& runs, const fs::path& continuation) {
  const auto path_or_null = [](const fs::path& path) {
    return path.empty() ? HarnessJson(nullptr) : HarnessJson(fs::absolute(path).string());
  };
  HarnessJson definitions = HarnessJson::array(), folders = HarnessJson::array(), shots = HarnessJson::array();
  for (const std::string& line : options.definitions) {
    const authoring::DefinitionText text = authoring::split_definition(line);
    HarnessJson definition{{"name", text.name}, {"f", text.f}, {"g", text.g}, {"parameters", HarnessJson::object()}};
    if (!text.n.empty()) definition["n"] = text.n;
    if (!text.energy.empty()) definition["energy"] = text.energy;
    for (const auto& [name, value] : text.parameters) definition["parameters"][name] = value;
    definitions.push_back(std::move(definition));
  }
  for (const LoadedRun& run : runs) folders.push_back(run.scored.folder);
  if (options.shots)
    shots.push_back(*options.shots);
  else if (options.folder.empty())
    shots = {0, 1};
  else
    shots.push_back(nullptr);
  return {{"runs", folders},
          {"names", options.names},
          {"folder", path_or_null(options.folder)},
          {"data", path_or_null(options.data)},
          {"continuation", path_or_null(continuation)},
          {"shots", shots},
          {"limit", options.limit ? HarnessJson(*options.limit) : HarnessJson(nullptr)},
          {"batch", options.batch},
          {"seed", options.seed},
          {"definitions", definitions},
          {"mechanism_files", options.mechanism_files}};
}

std::optional<double> number_or_none(const HarnessJson& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

TaskScore score_of(const HarnessJson& json) {
  TaskScore score;
  for (const HarnessJson& metric : json.at("metrics"))
    score.metrics.push_back({.name = metric.at("name"),
                             .value = number_or_none(metric.at("value")),
                             .error = number_or_none(metric.at("error")),
                             .higher_is_better = metric.at("higher_is_better")});
  if (score.metrics.empty()) throw Error(expected_got("evaluate: --harness", "a metric of every task", "none"));
  score.problem = one_line(json.value("problem", ""));
  const HarnessJson& samples = json.at("samples");
  score.questions = std::ssize(samples.at("hashes"));
  score.samples = samples.dump(-1, ' ', false, HarnessJson::error_handler_t::replace);
  if (samples.contains("metrics") && samples.at("metrics").contains(score.metrics.front().name))
    for (const HarnessJson& answer : samples.at("metrics").at(score.metrics.front().name))
      if (answer.is_number()) score.answers.push_back(answer.get<double>());
  if (std::ssize(score.answers) != score.questions) score.answers.clear();
  return score;
}

HarnessJson answer_of_python(const fs::path& request_file, const fs::path& answer_file) {
  std::vector<std::string> command = python_running(program);
  command.insert(command.end(), {request_file.string(), answer_file.string()});
  // Packages that lm-eval imports read these once, and then ask the network for nothing.
  std::vector<std::string> environment{"HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_EVALUATE_OFFLINE=1",
                                       "TRANSFORMERS_OFFLINE=1", "HF_UPDATE_DOWNLOAD_COUNTS=0",
                                       // Resamples of a bootstrap would fork beside the threads of PyTorch.
                                       "DISABLE_MULTIPROC=1"};
  if (::isatty(STDERR_FILENO) == 0) environment.emplace_back("TQDM_DISABLE=1");
  const Finished finished =
      run_until_stopped(command, {.environment = environment, .errors_shown = true}, "evaluate: interrupted");
  if (!path_exists(answer_file))
    throw Error(expected_got("evaluate: --harness", "an answer of Python's lm-eval",
                             fmt::format("status {} and no answer", finished.status)));
  HarnessJson answer = HarnessJson::parse(read_file(answer_file), nullptr, false);
  if (answer.is_object() && answer.contains("missing")) {
    std::string module = answer.at("missing");
    const std::string package = module == "lm_eval" ? "lm-eval" : module;
    throw Error(expected_got("evaluate: --harness",
                             fmt::format("Python's {0}, which `{1} -m pip install {0}` installs", package,
                                         answer.value("python", "python3")),
                             "no module " + module));
  }
  if (answer.is_object() && answer.contains("problem")) throw Error(one_line(answer.at("problem").get<std::string>()));
  return answer;
}

}  // namespace

std::vector<std::string> harness_task_names() {
  std::vector<std::string> names(published_tasks.begin(), published_tasks.end());
  names.emplace_back(continuation_task);
  return names;
}

HarnessScores lm_eval_scores(const HarnessOptions& options) {
  expect_names(options);
  std::error_code problem;
  if (!options.data.empty() && !fs::is_directory(options.data, problem))
    throw UsageError(expected_got("evaluate: --harness-data", "a folder", options.data.string()));
  std::vector<LoadedRun> runs;
  expect_each_once(options.runs);
  for (const fs::path& run : options.runs) runs.push_back(loaded(run));
  name_apart(runs);
  const ScratchFolder scratch;
  const bool continues =
      std::find(options.names.begin(), options.names.end(), continuation_task) != options.names.end();
  const fs::path continuation = continues ? scratch / "continuation" : fs::path();
  if (continues) write_continuation(runs, options, continuation / "test.jsonl");
  const fs::path request_file = scratch / "request.json", answer_file = scratch / "answer.json";
  write_file(request_file,
             request(options, runs, continuation).dump(-1, ' ', false, HarnessJson::error_handler_t::replace));
  const HarnessJson answer = answer_of_python(request_file, answer_file);
  HarnessScores scores{.lm_eval = {}, .seed = options.seed, .limit = options.limit, .tasks = {}, .runs = {}};
  try {
    scores.lm_eval = answer.at("lm_eval");
    for (const HarnessJson& task : answer.at("tasks"))
      scores.tasks.push_back({.name = task.at("name"),
                              .shots = task.at("shots"),
                              .kind = task.at("kind"),
                              .chance = number_or_none(task.at("chance")),
                              .commonest = number_or_none(task.at("commonest"))});
    for (std::size_t run = 0; run < runs.size(); ++run) {
      for (const HarnessJson& score : answer.at("runs").at(run)) runs[run].scored.scores.push_back(score_of(score));
      scores.runs.push_back(std::move(runs[run].scored));
    }
  } catch (const HarnessJson::exception& error) {
    throw Error(expected_got("evaluate: --harness", "an answer of Python's lm-eval", one_line(error.what())));
  }
  scores.differences = score_differences(scores.runs);
  return scores;
}

}  // namespace cogwheel::compare
