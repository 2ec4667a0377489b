#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/comparison_run.h"
#include "cogwheel/cli/experiment_plan.h"
#include "cogwheel/cli/experiments.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/compare/run_store.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/research/reproduce/index.h"
#include "cogwheel/research/reproduce/lab_times.h"
#include "cogwheel/research/reproduce/reproduction.h"
#include "cogwheel/research/reproduce/trained_reproduction.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_options.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

// The marker of a folder with many experiments.
constexpr std::string_view index_kind = "reproductions";

struct ReproduceArguments {
  reproduce::ReproductionRequest request;
  std::string out, resume, models = "runs/models";
  bool overwrite = false, retrain = false, dry_run = false, index = false;
  Workers workers;
};

compare::RunStore store_of(const ReproduceArguments& arguments) {
  return {arguments.models, COGWHEEL_VERSION, arguments.retrain};
}

// Whether others train than this process, with all of its threads.
bool has_workers(const ReproduceArguments& arguments) {
  const Workers alone;
  return arguments.workers.count != alone.count || arguments.workers.threads != alone.threads;
}

// The folder of the result of an experiment, taken, without files of an earlier one.
struct ResultFolder {
  fs::path path;
  std::shared_ptr<const FolderLock> lock;
};

ResultFolder take_result_folder(std::string name, const ReproduceArguments& arguments) {
  std::replace(name.begin(), name.end(), '/', '-');
  const fs::path path = !arguments.resume.empty() ? fs::path(arguments.resume)
                        : arguments.out.empty()   ? runs::new_run_path(name)
                                                  : fs::path(arguments.out);
  ResultFolder folder{
      path, take_folder(path, reproduce::reproduction_kind, arguments.overwrite || !arguments.resume.empty())};
  remove_files(path, {reproduce::reproduction_page_file, reproduce::reproduction_json_file});
  runs::point_latest_at(path);
  return folder;
}

std::string command_of(const reproduce::ReproductionRequest& request) {
  const reproduce::ReproductionRequest defaults;
  const bool file = is_experiment_file(request.experiment);
  std::string command =
      "cogwheel reproduce " + (file ? shell_word(fs::proximate(request.experiment).string()) : request.experiment);
  if (request.scale != defaults.scale) command += " --scale " + request.scale;
  if (request.seeds > 0) command += fmt::format(" --seeds {}", request.seeds);
  if (request.steps > 0)
    command += fmt::format(" --steps {}", request.steps);
  else if (request.minutes > 0)
    command += " --minutes " + number_text(request.minutes);
  for (const auto& [option, paths] : {std::pair{" --text ", &request.text}, {" --corpus ", &request.corpus}})
    for (const std::string& path : *paths) command += option + shell_word(fs::proximate(path).string());
  for (const auto* assignments : {&request.set, &request.fitted})
    for (const std::string& assignment : *assignments) command += " --set " + shell_word(assignment);
  return command;
}

// The numbers beside each other, one a line, and why they differ where they do.
void print_findings(const labs::LabResult& result, const reproduce::SourceName& source) {
  for (const labs::Finding& finding : result.findings) {
    const bool compared = finding.verdict().has_value();
    std::string told;
    if (compared)
      told = fmt::format(", expected {} ({})", finding.expected_text(), finding.whose_text(source.possessive));
    if (const std::string evidence = finding.evidence_text(); !evidence.empty()) told += ": " + evidence;
    fmt::print("{:<3}  {}: {}{}\n", compared ? finding.verdict_word() : "", finding.what, finding.ours_text(), told);
  }
  fmt::print("\n{}\n", result.answer);
  for (const labs::Finding& finding : result.findings)
    if (finding.agrees() == std::optional(false) && !finding.remark.empty())
      fmt::print("{}: {}\n", finding.what, finding.remark);
}

bool is_lab(const Experiment& found) { return !reproduce::has_variants(read_file(found.path), found.path.string()); }

// Throws UsageError where something is asked for that only trained experiments have.
void expect_options_of_a_lab(const ReproduceArguments& arguments) {
  const reproduce::ReproductionRequest& given = arguments.request;
  const std::pair<bool, const char*> options[] = {{given.scale != reproduce::ReproductionRequest().scale, "--scale"},
                                                  {!given.text.empty(), "--text"},
                                                  {!given.corpus.empty(), "--corpus"},
                                                  {arguments.retrain, "--retrain"},
                                                  {has_workers(arguments), "--workers or --threads"}};
  for (const auto& [asked, option] : options)
    if (asked)
      throw UsageError(expected_got(given.experiment,
                                    "no --scale, --text, --corpus, --retrain, --workers and --threads, as it is a lab",
                                    option));
}

reproduce::LabExperiment parse_lab(const Experiment& found, const reproduce::ReproductionRequest& request) {
  reproduce::LabExperiment experiment =
      reproduce::parse_lab_experiment(read_file(found.path), found.name, found.path.string());
  reproduce::set_parameters(experiment, request);
  return experiment;
}

void reproduce_lab(const Experiment& found, const ReproduceArguments& arguments) {
  reproduce::LabExperiment experiment = parse_lab(found, arguments.request);
  const ResultFolder folder = take_result_folder(found.name, arguments);

  fmt::print(stderr, "{}: {}\n", found.name, experiment.lab->question);
  reproduce::ReproductionRequest recorded = arguments.request;
  const labs::LabHost host = host_of_lab(found.name);
  const reproduce::LabForecast forecast =
      reproduce::forecast_lab(experiment, arguments.request, host, /*to_tell=*/false);
  if (!forecast.fitted.empty()) recorded.fitted = {forecast.fitted};
  if (forecast.smaller || forecast.exceeds)
    host.progress(forecast.fitted + ", for the time given" +
                  (forecast.exceeds ? ", which what it takes anyway exceeds" : ""));
  write_file(folder.path / reproduce::request_file, reproduce::request_to_json(recorded));
  const auto begin = WallClock::now();
  labs::LabResult result = reproduce::run_lab(experiment, host);
  recorded.minutes = 0;
  const reproduce::Reproduction reproduction{.experiment = std::move(experiment),
                                             .result = std::move(result),
                                             .command = command_of(recorded),
                                             .created = utc_now(),
                                             .version = COGWHEEL_VERSION,
                                             .cpu = compare::this_machine().cpu,
                                             .seconds = seconds_since(begin)};
  write_file(folder.path / reproduce::reproduction_json_file, reproduce::reproduction_json(reproduction));
  write_file(folder.path / reproduce::reproduction_page_file, reproduce::reproduction_page(reproduction));
  print_findings(reproduction.result, *reproduction.experiment.source);
  fmt::print("{}\n{}\n", reproduce::agreement(reproduction.result, *reproduction.experiment.source),
             (folder.path / reproduce::reproduction_page_file).string());
}

reproduce::TrainedExperiment parse_trained(const Experiment& found) {
  return reproduce::parse_trained_experiment(read_file(found.path), found.name, found.path.string());
}

void reproduce_trained(const Experiment& found, const ReproduceArguments& arguments) {
  PlannedExperiment planned = plan_experiment(parse_trained(found), arguments.request);
  const reproduce::TrainedExperiment& experiment = planned.experiment;
  compare::RunStore store = store_of(arguments);
  const ResultFolder folder = take_result_folder(found.name, arguments);
  const auto begin = WallClock::now();
  fmt::print(stderr, "{}: {}\n", found.name, experiment.question);
  // Where the steps are given, no rate is asked for anything but an estimate.
  const bool decides = planned.budget.steps == 0 || planned.comparison.match == "time";
  compare::decide_steps(
      planned.comparison, planned.budget,
      decides ? measure_rates(planned.tasks, true) : compare::MeasureRate([](const auto&...) { return 1.0; }));
  // With its steps, so that it can be resumed as it began, whatever the machine's speed is then.
  reproduce::ReproductionRequest recorded = arguments.request;
  for (const std::string& assignment : planned.fitted) {
    fmt::print(stderr, "{}: {}, for the time given\n", found.name, assignment);
    recorded.set.push_back(assignment);
  }
  if (planned.budget.steps == 0) recorded.steps = planned.comparison.settings.steps;
  write_file(folder.path / reproduce::request_file, reproduce::request_to_json(recorded));
  const std::int64_t stored = stored_runs(planned, store);

  const auto place = compare::ComparisonFolder::create(folder.path / reproduce::comparison_folder, true);
  place.write_records(*planned.tasks.shared());
  std::string resume = "cogwheel reproduce --resume " + shell_word(folder.path.string());
  if (arguments.models != ReproduceArguments().models) resume += " --models " + shell_word(arguments.models);
  const compare::ComparisonJob job =
      run_comparison(place, std::move(planned.comparison), planned.tasks, {}, arguments.workers, &store, resume);
  std::vector<reproduce::StudyOfRows> studies =
      reproduce::make_studies(experiment, job.comparison(), place.path(), folder.path,
                              reproduce::StudyStore(store.folder(), store.version(), store.retrains()),
                              [&](const std::string& line) { fmt::print(stderr, "{}: {}\n", found.name, line); });
  std::vector<reproduce::DecidedClaim> claims = reproduce::decide(experiment.claims, {job.comparison(), studies});
  reproduce::TrainedReproduction reproduction{.experiment = experiment,
                                              .request = recorded,
                                              .comparison = job.comparison(),
                                              .studies = std::move(studies),
                                              .claims = std::move(claims),
                                              .taken = stored,
                                              .command = command_of(recorded),
                                              .created = utc_now(),
                                              .version = COGWHEEL_VERSION,
                                              .seconds = seconds_since(begin)};
  write_file(folder.path / reproduce::reproduction_json_file, reproduce::trained_json(reproduction));
  write_file(folder.path / reproduce::reproduction_page_file, reproduce::trained_page(reproduction));
  fmt::print("{}\n{}\n{}\n", pages::table_text(reproduce::claims_table(reproduction.claims)),
             reproduce::claims_sentence(reproduction.claims),
             (folder.path / reproduce::reproduction_page_file).string());
  job.expect_success();
  reproduction.expect_studies();
}

// Says what it would take, and adds it to the estimate of all.
void estimate(const Experiment& found, const ReproduceArguments& arguments, Estimate& all) {
  if (is_lab(found))
    say_what_it_takes(parse_lab(found, arguments.request), arguments.request, all);
  else
    say_what_it_takes(parse_trained(found), arguments.request, store_of(arguments), arguments.workers, all);
}

void run_experiment(const Experiment& found, const ReproduceArguments& arguments) {
  const bool lab = is_lab(found);
  if (lab) expect_options_of_a_lab(arguments);
  Estimate of_one;
  if (arguments.dry_run) return estimate(found, arguments, of_one);
  lab ? reproduce_lab(found, arguments) : reproduce_trained(found, arguments);
}

// All experiments, or those of one source: those whose name begins so.
std::vector<Experiment> experiments_of(const std::string& name) {
  std::vector<Experiment> all = reproductions();
  if (name != "all") std::erase_if(all, [&](const Experiment& each) { return !each.name.starts_with(name + "/"); });
  return all;
}

// What applies to a lab of what is asked of many experiments: the time it may take, and seeds and steps where it has
// them. At another scale than desk it is the same.
reproduce::ReproductionRequest request_of_lab(const Experiment& found, const reproduce::ReproductionRequest& asked) {
  const LabParameters parameters = parse_lab(found, {}).parameters;
  return {.experiment = found.name,
          .seeds = parameters.has(reproduce::seeds_parameter) ? asked.seeds : 0,
          .steps = parameters.has(reproduce::steps_parameter) ? asked.steps : 0,
          .minutes = asked.minutes};
}

// Whether the result in a folder is of this request; what nobody can read is of none.
bool has_request(const fs::path& folder, const reproduce::ReproductionRequest& request) {
  const fs::path file = folder / reproduce::request_file;
  try {
    return path_exists(file) &&
           reproduce::is_recorded(request, reproduce::parse_request(read_file(file), file.string()));
  } catch (const Error&) {
    return false;
  }
}

// Makes what is missing, one experiment after the other, each in the folder of its name; one that fails does not end
// the others. Then the index of all.
void reproduce_several(const std::vector<Experiment>& all, const ReproduceArguments& arguments) {
  const fs::path path =
      arguments.out.empty() ? runs::new_run_path("reproduce-" + arguments.request.experiment) : fs::path(arguments.out);
  const auto results_of = [&](const Experiment& found) {
    return path / found.name / reproduce::reproduction_json_file;
  };
  if (arguments.index && std::ranges::none_of(all, [&](const auto& found) { return path_exists(results_of(found)); }))
    throw Error(expected_got("--index", "--out DIR with the result of an experiment of " + arguments.request.experiment,
                             arguments.out.empty() ? "no --out" : "none in " + arguments.out));
  reproduce::IndexSummary index{
      .command = command_of(arguments.request), .created = utc_now(), .version = COGWHEEL_VERSION, .experiments = {}};
  const auto lock = arguments.dry_run ? nullptr : take_folder(path, index_kind, true);
  Estimate all_of_them;
  std::string problems;
  for (const Experiment& found : all) {
    ReproduceArguments one = arguments;
    one.request.experiment = found.name;
    one.out = (path / found.name).string();
    one.overwrite = true;
    const fs::path results = results_of(found);
    reproduce::IndexedExperiment indexed{
        .name = found.name, .source = {}, .question = found.summary, .answer = {}, .created = {}};
    try {
      const bool lab = is_lab(found);
      if (lab) one.request = request_of_lab(found, arguments.request), one.retrain = false, one.workers = {};
      std::error_code problem;
      const bool there = fs::exists(results, problem);
      const bool stays =
          lab && there && !arguments.retrain && !arguments.index && has_request(path / found.name, one.request);
      if (arguments.dry_run) {
        if (stays)
          fmt::print("{}: is there\n\n", found.name);
        else if (!lab && !parse_trained(found).has_scale(one.request.scale))
          fmt::print("{}: of no other scale than desk\n\n", found.name);
        else
          estimate(found, one, all_of_them), fmt::print("\n");
        continue;
      }
      if (!arguments.index && !stays) run_experiment(found, one);
      if (arguments.index && !there) continue;
      indexed = reproduce::parse_indexed(read_file(results), results.string());
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      indexed.problem = one_line(error.what());
      fmt::print(stderr, "{}: {}\n", found.name, indexed.problem);
      problems = indexed.problem;
    }
    index.experiments.push_back(std::move(indexed));
  }
  if (arguments.dry_run && arguments.request.scale == "desk")
    fmt::print("In all {} to train, about {} here{}; labs about {}\n",
               pages::counted(std::ssize(all_of_them.runs), "run"), duration_text(all_of_them.seconds),
               arguments.workers.count > 1 ? fmt::format(" by {} workers", arguments.workers.count) : "",
               duration_text(all_of_them.seconds_of_labs));
  if (arguments.dry_run && problems.empty()) return;
  if (arguments.dry_run) throw Error(expected_got("reproduce", "an estimate of every experiment", problems));
  write_file(path / "report.html", reproduce::index_page(index));
  write_file(path / "sources.md", reproduce::index_markdown(index));
  fmt::print("{}\n{}\n", reproduce::index_sentence(index), (path / "report.html").string());
  if (!problems.empty()) throw Error(expected_got("reproduce", "a result of every experiment", problems));
}

// As a request records it: a file by its whole path.
std::string recorded_experiment(const std::string& name) {
  return is_experiment_file(name) ? runs::recorded_path(name, "experiment") : name;
}

// What a folder was asked for, which goes on.
void take_recorded_request(ReproduceArguments& arguments) {
  const fs::path file = fs::path(arguments.resume) / reproduce::request_file;
  std::error_code problem;
  if (!fs::exists(file, problem))
    throw Error(expected_got(arguments.resume, "the folder of an experiment",
                             "no " + std::string(reproduce::request_file) + " in it"));
  const std::string named = recorded_experiment(arguments.request.experiment);
  arguments.request = reproduce::parse_request(read_file(file), file.string());
  if (!named.empty() && named != arguments.request.experiment)
    throw UsageError(expected_got("--resume", "a folder of " + named, "one of " + arguments.request.experiment));
}

void reproduce_named(ReproduceArguments& arguments) {
  if (arguments.dry_run && arguments.request.scale != "desk" && has_workers(arguments))
    throw UsageError(expected_got("--scale " + arguments.request.scale,
                                  "no --workers and no --threads with --dry-run, which counts each row alone", "them"));
  if (!arguments.resume.empty()) take_recorded_request(arguments);
  arguments.request.experiment = recorded_experiment(arguments.request.experiment);
  for (auto* paths : {&arguments.request.text, &arguments.request.corpus})
    for (std::string& path : *paths) path = runs::recorded_path(path, "--text");
  if (const std::vector<Experiment> several = experiments_of(arguments.request.experiment); !several.empty())
    return reproduce_several(several, arguments);
  if (arguments.index)
    throw UsageError(expected_got("--index", "all experiments, or those of a source", arguments.request.experiment));
  run_experiment(find_reproduction(arguments.request.experiment), arguments);
}

}  // namespace

void add_reproduce_command(CLI::App& app) {
  const auto arguments = std::make_shared<ReproduceArguments>();
  reproduce::ReproductionRequest& request = arguments->request;
  CLI::App* command = app.add_subcommand("reproduce",
                                         "Run an experiment on what a source claims, and write a page with that beside "
                                         "what was found (docs/reproduce.md)");
  CLI::Option* name = command->add_option(
      "experiment", request.experiment,
      "one of `cogwheel list experiments`, such as s2/hopfield; all of a source, s2; all; or a file of your "
      "own, NAME.toml");
  name->type_name("NAME");
  std::vector<CLI::Option*> settings;
  const auto add = [&](const std::string& option, auto& value, const std::string& help, const std::string& type) {
    settings.push_back(command->add_option(option, value, help)->type_name(type));
  };
  add("--set", request.set,
      "override parameters of a lab, as in seed=2 or sizes=250,500; keys of all models; or parameters of a study, as "
      "in "
      "pictures.samples=300; of several experiments, of those that train",
      "KEY=VALUE");
  add("--scale", request.scale, "of models and runs: desk, or paper, the source's own (default: desk)", "NAME");
  settings.push_back(add_number(*command, "--seeds", request.seeds, compare::seeds_range,
                                "runs of each row, or of a lab that trains (default: the experiment's)")
                         ->type_name("K"));
  CLI::Option* steps = settings.emplace_back(add_number(*command, "--steps", request.steps, runs::steps_range,
                                                        "training steps of a run (default: the experiment's)")
                                                 ->type_name("N"));
  settings.push_back(
      add_number(*command, "--minutes", request.minutes, Range<double>{0.1, 1e6},
                 "as many steps as fit into so many minutes here, instead; of a lab that trains at most its own")
          ->type_name("N")
          ->excludes(steps));
  add("--text", request.text, "files or folders to train on; by default Python's standard library", "PATH");
  add("--corpus", request.corpus, "folders of `cogwheel data prepare`, instead", "DIR");
  command
      ->add_option("--models", arguments->models,
                   "where trained runs are kept for all experiments (default: runs/models)")
      ->type_name("DIR");
  CLI::Option* retrain =
      command->add_flag("--retrain", arguments->retrain, "train anew what --models has; of several, compute labs anew");
  const auto [workers, threads] = add_worker_options(*command, arguments->workers);
  CLI::Option* dry = command->add_flag("--dry-run", arguments->dry_run, "say what would be made and how long it takes");
  CLI::Option* index =
      command->add_flag("--index", arguments->index, "of several: run nothing, index the results that --out has");
  for (CLI::Option* of_training : {workers, threads}) index->excludes(of_training);
  index->excludes(dry)->excludes(retrain);
  CLI::Option* out =
      command->add_option("--out", arguments->out, "folder of the result; by default runs/<date-time>-<name>");
  out->type_name("DIR");
  CLI::Option* overwrite =
      command->add_flag("--overwrite", arguments->overwrite, "replace the result that --out holds");
  CLI::Option* resume =
      command->add_option("--resume", arguments->resume, "go on with an interrupted experiment; a lab begins again");
  resume->type_name("DIR");
  for (CLI::Option* each : settings) resume->excludes(each), index->excludes(each);
  resume->excludes(out)->excludes(dry)->excludes(index)->excludes(retrain)->excludes(overwrite);
  command->callback([arguments, name, resume] {
    if (name->count() == 0 && resume->count() == 0)
      throw UsageError(
          expected_got("experiment", "a name, as `cogwheel list experiments` shows them, or --resume DIR", "neither"));
    reproduce_named(*arguments);
  });
}

}  // namespace cogwheel::cli
