#include "cogwheel/compare/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <variant>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/compare/plan/presets.h"
#include "cogwheel/compare/plan/rows.h"
#include "cogwheel/compare/plan/variants.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/compare/record/training_length.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/language/language_model_form.h"
#include "cogwheel/tasks/task_files.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::compare {
namespace {

constexpr std::int64_t evaluations = 10;  // of a run; see with_steps
// Where fewer would fit, a comparison takes longer. By itself it trains for so many that it can tell something; within
// given seconds for so many that each evaluation has a step.
constexpr std::int64_t min_chosen_steps = 200, min_fitted_steps = evaluations;
constexpr double seconds_around_a_run = 1.5;  // for maps, sample and files
// A forward pass is a third of a training step's work; with statistics of heads it is more.
constexpr double forward_share = 1.0 / 3, observed_share = 0.45;

void expect_known(std::string_view option, const std::string& value, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) == known.end())
    throw UsageError(expected_got(option, expected_names(value, known), value));
}

// The model that learns the task of a request, which --set may name.
runs::ModelOptions requested_model(const CompareRequest& request) {
  constexpr std::string_view key = "task.model=";
  std::string model;
  for (const std::string& assignment : request.set)
    if (assignment.starts_with(key)) model = assignment.substr(key.size());
  return runs::model_of_task(request.task, model);
}

// The one that is asked for; else the first whose model can learn the task.
const runs::Preset& requested_preset(const CompareRequest& request) {
  if (!request.preset.empty()) return find_preset(request.preset);
  if (request.task.empty()) return presets().front();
  expect_known("--task", request.task, runs::task_names());
  const runs::ModelOptions model = requested_model(request);
  for (const runs::Preset& preset : presets())
    if (preset.model.same_topology(model) && (!preset.has_task() || preset.task.name == request.task)) return preset;
  throw UsageError(expected_got("--task", "a task with a preset", request.task));
}

// Throws UsageError where an option of language models alone is given for another model.
void expect_no_language_model(const CompareRequest& request, const std::string& task) {
  const CompareRequest none;
  const auto expect = [&](const char* option, const auto& value, const auto& default_value) {
    if (value != default_value) throw UsageError(expected_got(option, "a task that a language model learns", task));
  };
  expect("--form", request.form, none.form);
  expect("--position", request.position, none.position);
  expect("--recurrent-layer", request.recurrent_layer, none.recurrent_layer);
}

// Throws UsageError where data are given that the task does not read.
void expect_data_of_task(const CompareRequest& request, const std::string& task) {
  tasks::expect_files_of_task(request.task_files, task);
  const std::string of_text = runs::TaskOptions{}.name;
  const auto expect = [&](const char* option, bool given) {
    if (given && task != of_text) throw UsageError(expected_got(option, "the task " + of_text, task));
  };
  expect("--text", !request.text.empty());
  expect("--corpus", !request.corpus.empty());
  if (!request.corpus.empty() && !request.text.empty())
    throw UsageError(expected_got("--corpus", "no --text beside it", request.text.front()));
  if (!request.corpus.empty() && request.tokenizer != CompareRequest{}.tokenizer)
    throw UsageError(expected_got("--corpus", "no --tokenizer beside it, as a corpus has one", request.tokenizer));
  expect("--tokenizer", request.tokenizer != CompareRequest{}.tokenizer);
  expect("--bytes", request.bytes != 0);
  if (!request.corpus.empty() && request.bytes != 0)
    throw UsageError(expected_got("--corpus", "no --bytes beside it", std::to_string(request.bytes)));
}

void set_language_model(tasks::language::LanguageModelOptions& model, const CompareRequest& request,
                        std::string_view form) {
  tasks::language::set_form(model, form, "--form");
  if (!request.position.empty()) model.position = request.position;
  model.recurrent_layer = request.recurrent_layer;
}

// The model of the run that --set task.start names, of language models, with what options change of it; none where
// there is none.
std::optional<tasks::language::LanguageModelOptions> start_model(const CompareRequest& request,
                                                                 const runs::RunConfig& shared) {
  constexpr std::string_view key = "task.start=";
  if (shared.model.get_if<tasks::language::LanguageModelOptions>() == nullptr) return std::nullopt;
  const auto named = std::find_if(request.set.rbegin(), request.set.rend(),
                                  [&](const std::string& assignment) { return assignment.starts_with(key); });
  if (named == request.set.rend() || named->size() == key.size()) return std::nullopt;
  runs::RunConfig config = shared;
  runs::set_options(config, {*named});
  const auto* const path = std::get_if<std::string>(&config.task.values["start"]);
  if (path == nullptr) throw UsageError(expected_got("--set task.start", "the folder of a run", *named));
  const runs::RunConfig start = runs::load_config(runs::RunFolder::open(*path).config_path());
  const auto* const model = start.model.get_if<tasks::language::LanguageModelOptions>();
  if (model == nullptr)
    throw UsageError(
        expected_got("--set task.start", "a run of a language model", "one of the task " + start.task.name));
  tasks::language::LanguageModelOptions options = *model;
  options.mechanism = shared.model.as<tasks::language::LanguageModelOptions>().mechanism;
  if (!request.form.empty()) tasks::language::set_form(options, request.form, "--form");
  if (!request.position.empty()) options.position = request.position;
  if (request.recurrent_layer != CompareRequest{}.recurrent_layer) options.recurrent_layer = request.recurrent_layer;
  return options;
}

// 0: none, of a text that is given.
std::int64_t default_byte_limit(bool text_given) { return text_given ? 0 : runs::DataOptions{}.byte_limit; }

// Rounds down to two digits, so that it is easy to type: 1,234 → 1,200.
std::int64_t rounded_steps(double steps, std::int64_t at_least) {
  const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(std::max(1.0, steps))) - 1));
  return std::max(at_least, static_cast<std::int64_t>(std::floor(steps / unit) * unit));
}

// A preset of a task has its options too, which are those of no other.
runs::TaskOptions requested_task(const CompareRequest& request, const runs::Preset& preset) {
  if (request.task.empty() || request.task == preset.task.name) return preset.task;
  expect_known("--task", request.task, runs::task_names());
  if (!preset.model.same_topology(runs::model_of_task(request.task))) {
    std::string names;
    for (const runs::Preset& each : presets())
      if (each.task.name == request.task) names += (names.empty() ? "" : ", ") + std::string(each.name);
    throw UsageError(expected_got("--preset", "one whose model learns " + request.task + ": " + names, preset.name));
  }
  if (preset.has_task())
    throw UsageError(expected_got("--task", fmt::format("{}, the task of --preset {}", preset.task.name, preset.name),
                                  request.task));
  return {request.task};
}

// The keys of `request.set`, which override those of the preset.
void set_shared(runs::RunConfig& shared, const CompareRequest& request) {
  // Keys with an option of their own.
  std::map<std::string, std::string, std::less<>> options{
      {"task.name", "--task"},          {"model.form", "--form"},
      {"model.position", "--position"}, {"model.recurrent_layer", "--recurrent-layer"},
      {"model.dropout", "--dropout"},   {"model.mechanism", "--attention"},
      {"data.text", "--text"},          {"data.tokenizer", "--tokenizer"},
      {"data.byte_limit", "--bytes"},   {"data.corpus", "--corpus"},
      {"training.steps", "--steps"},    {"training.learning_rate", "--learning-rate"},
      {"training.device", "--device"},  {"training.precision", "--precision"},
      {"training.seed", "--seeds"}};
  if (!request.widths.empty()) options["model.width"] = "--widths";
  for (const tasks::TaskFileOption& option : tasks::task_file_options())
    options["task." + std::string(option.key)] = option.flag();
  for (const std::string& assignment : request.set)
    if (const auto option = options.find(key_of(assignment)); option != options.end())
      throw UsageError(expected_got("--set", option->second + " for " + option->first, assignment));
  std::vector<std::string> set = request.set;
  const auto sets_heads = [](const std::string& each) { return key_of(each) == "model.heads"; };
  // They must divide the widths of the rows, not that of the preset.
  if (!request.widths.empty() && std::ranges::any_of(set, sets_heads))
    set.push_back(fmt::format("model.width={}", request.widths.front()));
  runs::set_options(shared, set);
  for (const std::string& assignment : request.set)
    if (!is_shared(shared, key_of(assignment)))
      throw UsageError(expected_got("--set", "a key of a configuration that all runs share", assignment));
}

// Throws UsageError where widths are none that rows of this comparison can have.
std::vector<std::int64_t> checked_widths(const CompareRequest& request, const runs::RunConfig& shared) {
  std::vector<std::int64_t> widths = request.widths;
  if (widths.empty()) return widths;
  std::sort(widths.begin(), widths.end());
  if (const auto twice = std::adjacent_find(widths.begin(), widths.end()); twice != widths.end())
    throw UsageError(expected_got("--widths", "each width once", fmt::format("{} twice", *twice)));
  runs::ModelOptions model = shared.model;
  runs::stand_in_for_data(model);
  if (runs::block_parameter_count(model) == 0)
    throw UsageError(expected_got("--widths", "a task whose model has transformer blocks", shared.task.name));
  return widths;
}

// Of rows at several widths their names without the width.
std::vector<std::string> families(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const MechanismPlan& plan : comparison.mechanisms)
    if (std::find(names.begin(), names.end(), plan.family()) == names.end()) names.push_back(plan.family());
  return names;
}

// " --images DIR" and the like, of those files that the task was given.
std::string task_file_flags(const Comparison& comparison) {
  const auto& values = comparison.configuration.task.values;
  std::string flags;
  for (const tasks::TaskFileOption& option : tasks::task_file_options()) {
    const auto value = values.find(option.key);
    const auto* path = value == values.end() ? nullptr : std::get_if<std::string>(&value->second);
    if (path != nullptr && !path->empty())
      flags += " " + option.flag() + " " + shell_word(std::filesystem::proximate(*path).string());
  }
  return flags;
}

}  // namespace

StepBudget requested_budget(const CompareRequest& request) {
  if (request.steps > 0 || request.seconds > 0) return {.steps = request.steps, .seconds = request.seconds};
  return {.steps = requested_preset(request).steps};
}

Comparison plan_comparison(const CompareRequest& request) {
  expect_known("--match", request.match, {"parameters", "time", "tokens"});
  if (!request.position.empty()) expect_known("--position", request.position, tasks::language::position_names());
  expect_known("--recurrent-layer", request.recurrent_layer, tasks::language::recurrent_layer_names());
  expect_known("--precision", request.precision, {"fp32", "bf16"});
  expect_known("--tokenizer", request.tokenizer, text::tokenizer_names());
  const runs::Preset& preset = requested_preset(request);
  std::string form(request.form.empty() ? preset.form : request.form);
  expect_known("--form", form, tasks::language::form_names());

  Comparison comparison;
  for (const std::string& path : request.text) {
    if (path.empty()) throw UsageError(expected_got("--text", "a file or folder", path));
    comparison.data.text.push_back(runs::recorded_path(path, "--text"));
  }
  for (const std::string& path : request.corpus) {
    if (path.empty()) throw UsageError(expected_got("--corpus", "a folder", path));
    comparison.data.corpus.push_back(runs::recorded_path(path, "--corpus"));
  }
  comparison.data.tokenizer = request.tokenizer;
  comparison.data.byte_limit = request.bytes > 0 ? request.bytes : default_byte_limit(!request.text.empty());
  comparison.match = request.match;

  runs::RunConfig shared;
  shared.task = requested_task(request, preset);
  expect_data_of_task(request, shared.task.name);
  for (const auto& [name, path] : request.task_files)
    if (!path.empty()) shared.task.values[name] = path;
  shared.data = {.text = comparison.data.text,
                 .tokenizer = comparison.data.tokenizer,
                 .vocabulary = runs::DataOptions{}.vocabulary,
                 .byte_limit = comparison.data.byte_limit,
                 .sha256 = {},
                 .corpus = comparison.data.corpus};
  shared.model = preset.model;
  if (auto* const model = shared.model.get_if<tasks::language::LanguageModelOptions>())
    set_language_model(*model, request, form);
  else
    expect_no_language_model(request, shared.task.name);
  if (const auto start = start_model(request, shared)) {
    shared.model = *start;
    if (comparison.match == "parameters") comparison.match = "tokens";  // the start has decided the widths
    for (const std::string& name : tasks::language::form_names()) {
      tasks::language::LanguageModelOptions of_form = *start;
      tasks::language::set_form(of_form, name);
      if (of_form == *start) form = name;
    }
  }
  runs::common(shared.model).dropout = request.dropout.value_or(runs::common(shared.model).dropout);
  shared.training = request.learning_rate > 0 ? with_rate(preset.training, request.learning_rate) : preset.training;
  shared.training.device = request.device;
  shared.training.precision = request.precision;
  runs::check(shared.training);
  set_shared(shared, request);
  comparison.configuration = shared_part(shared);
  comparison.settings = {
      .preset = std::string(preset.name), .form = form, .tune = request.tune, .seeds = {}, .set = request.set};
  for (std::int64_t seed = 1; seed <= request.seeds; ++seed) comparison.settings.seeds.push_back(seed);

  comparison.settings.widths = checked_widths(request, shared);
  const bool of_preset = request.attention.empty() && request.variants.empty();
  for (std::string name : of_preset ? preset.attention : request.attention) {
    name.erase(0, name.find_first_not_of(' '));  // as of "softmax, cog"
    name.erase(name.find_last_not_of(' ') + 1);
    add_row_at_widths(comparison, of_mechanism(name), "--attention");
  }
  for (const Variant& variant : request.variants) add_row_at_widths(comparison, variant, "--variant");
  const std::vector<std::string> names = families(comparison);
  const bool softmax = std::find(names.begin(), names.end(), "softmax") != names.end();
  const std::string baseline = !request.baseline.empty() ? request.baseline : softmax ? "softmax" : names.front();
  expect_known("--baseline", baseline, names);
  comparison.baseline =
      std::find_if(comparison.mechanisms.begin(), comparison.mechanisms.end(), [&](const MechanismPlan& plan) {
        return plan.family() == baseline;
      })->name;
  return comparison;
}

void add_rows(Comparison& comparison, const std::vector<std::string>& rows) {
  for (const std::string& row : rows) {
    const Variant variant = is_variant(row) ? parse_variant(row, "--add") : of_mechanism(row);
    const std::vector<std::string> names = families(comparison);
    if (std::find(names.begin(), names.end(), variant.name) != names.end())
      throw UsageError(expected_got("--add", "a name that is not in the comparison yet", variant.name));
    add_row_at_widths(comparison, variant, "--add");
  }
}

std::string run_name(std::string_view mechanism, std::int64_t seed) {
  return fmt::format("{}-seed-{}", name_in_path(mechanism), seed);
}

runs::RunConfig run_config(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed) {
  runs::RunConfig config = row_configuration(shared_configuration(comparison), plan);
  config.name = run_name(plan.name, seed);
  config.training = with_steps(config.training, std::max<std::int64_t>(1, plan.steps));
  if (plan.learning_rate > 0) config.training = with_rate(config.training, plan.learning_rate);
  config.training.seed = static_cast<std::uint64_t>(seed);
  return config;
}

double decide_steps(Comparison& comparison, const StepBudget& budget, const MeasureRate& measure) {
  Comparison::Settings& settings = comparison.settings;
  const auto seeds = static_cast<double>(settings.seeds.size()), trials = static_cast<double>(settings.tune);
  const double tokens_per_step = static_cast<double>(comparison.tokens_per_step());
  const bool time_matched = comparison.match == "time";
  std::vector<double> rates;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const bool needed = plan.steps == 0 || (time_matched && comparison.is_base(plan.name));
    rates.push_back(needed ? measure(plan, run_config(comparison, plan, settings.seeds.front())) : 0);
  }
  const auto base_of = [&](const MechanismPlan& plan) {
    return static_cast<std::size_t>(comparison.plan(comparison.base_of(plan.name)) - comparison.mechanisms.data());
  };

  // Seconds per step of the baseline, and seconds that do not depend on the steps, over all plans without steps.
  double per_step = 0, fixed = 0;
  for (std::size_t index = 0; index < rates.size(); ++index) {
    if (comparison.mechanisms[index].steps != 0) continue;
    per_step += (seeds + trials / 2) / (time_matched ? rates[base_of(comparison.mechanisms[index])] : rates[index]);
    const double per_token = 1 / (rates[index] * tokens_per_step);
    const double curve = observed_share * per_token * static_cast<double>(comparison.data.curve_tokens);
    const bool all_of_it = comparison.data.curve_tokens == comparison.data.evaluated_tokens;
    const double last =
        all_of_it ? 0 : forward_share * per_token * static_cast<double>(comparison.data.evaluated_tokens);
    fixed += seeds * (evaluations * curve + last + seconds_around_a_run) + trials * (curve + last);
  }
  if (settings.steps == 0 && budget.steps > 0) settings.steps = budget.steps;
  if (settings.steps == 0) {
    const double seconds = budget.seconds > 0 ? budget.seconds : find_preset(settings.preset).seconds;
    settings.steps =
        rounded_steps((seconds - fixed) / per_step, budget.seconds > 0 ? min_fitted_steps : min_chosen_steps);
  }
  for (std::size_t index = 0; index < rates.size(); ++index) {
    MechanismPlan& plan = comparison.mechanisms[index];
    if (plan.steps != 0) continue;
    plan.steps = settings.steps;
    if (time_matched && !comparison.is_base(plan.name))
      plan.steps = std::max<std::int64_t>(
          1, std::llround(static_cast<double>(settings.steps) * rates[index] / rates[base_of(plan)]));
    plan.learning_rate = untuned_rate(comparison, plan);
  }
  return fixed + per_step * static_cast<double>(settings.steps);
}

double untuned_rate(const Comparison& comparison, const MechanismPlan& plan) {
  return row_configuration(shared_configuration(comparison), plan).training.learning_rate;
}

std::int64_t trial_steps(const MechanismPlan& plan) { return std::max<std::int64_t>(1, plan.steps / 2); }

std::vector<double> trial_rates(double learning_rate, std::int64_t trials) {
  std::vector<double> rates;
  for (std::int64_t trial = 0; trial < trials; ++trial)
    rates.push_back(std::ldexp(learning_rate, static_cast<int>(trial - trials / 2)));
  return rates;
}

std::string reproduce_command(const Comparison& comparison) {
  const Comparison::Settings& settings = comparison.settings;
  const runs::ModelOptions& model = comparison.configuration.model;
  const runs::TrainingOptions& training = comparison.configuration.training;
  std::string command = "cogwheel compare";
  // The preset may no longer exist.
  const auto preset = std::find_if(presets().begin(), presets().end(),
                                   [&](const runs::Preset& each) { return each.name == settings.preset; });
  const bool known = preset != presets().end();
  if (comparison.task.name != (known ? preset->task : runs::TaskOptions{}).name)
    command += " --task " + comparison.task.name;
  if (!comparison.data.text.empty()) {
    command += " --text";
    for (const std::string& path : comparison.data.text)
      command += " " + shell_word(std::filesystem::proximate(path).string());
  }
  if (!comparison.data.corpus.empty()) {
    command += " --corpus";
    for (const std::string& path : comparison.data.corpus)
      command += " " + shell_word(std::filesystem::proximate(path).string());
  }
  if (const std::int64_t limit = comparison.data.byte_limit;
      limit > 0 && limit != default_byte_limit(!comparison.data.text.empty()))
    command += fmt::format(" --bytes {}", comparison.data.byte_limit);
  command += task_file_flags(comparison);
  const std::vector<std::string> tokenizers = text::tokenizer_names();  // others say what the items of a task are
  if (comparison.data.bytes > 0 && comparison.data.corpus.empty() &&
      comparison.data.tokenizer != CompareRequest{}.tokenizer &&
      std::find(tokenizers.begin(), tokenizers.end(), comparison.data.tokenizer) != tokenizers.end())
    command += " --tokenizer " + comparison.data.tokenizer;
  std::string names;
  std::vector<const MechanismPlan*> rows;  // of several widths one
  for (const MechanismPlan& plan : comparison.mechanisms)
    if (plan.series.empty() || plan.width == settings.widths.front()) rows.push_back(&plan);
  for (const MechanismPlan* plan : rows)
    if (plan->is_mechanism()) names += (names.empty() ? "" : ",") + plan->family();
  if (!names.empty()) command += " --attention " + shell_word(names);
  for (const MechanismPlan* plan : rows) {
    if (plan->is_mechanism()) continue;
    std::vector<std::string> set = plan->set;
    if (!plan->series.empty()) std::erase_if(set, [](const auto& each) { return key_of(each) == "model.width"; });
    command += " --variant " + shell_word(variant_text(plan->family(), set));
  }
  if (!settings.widths.empty()) command += fmt::format(" --widths {}", fmt::join(settings.widths, ","));
  command += fmt::format(" --preset {} --seeds {} --match {} --steps {}", settings.preset, settings.seeds.size(),
                         comparison.match, settings.steps);
  const CompareRequest defaults;
  if (settings.form != (known ? preset->form : Comparison::Settings{}.form)) command += " --form " + settings.form;
  const std::string position = position_beside_form(comparison);
  if (!position.empty()) command += " --position " + position;
  if (const auto* options = model.get_if<tasks::language::LanguageModelOptions>();
      options != nullptr && options->recurrent_layer != defaults.recurrent_layer)
    command += " --recurrent-layer " + options->recurrent_layer;
  if (runs::common(model).dropout != (known ? runs::common(preset->model).dropout : 0))
    command += fmt::format(" --dropout {}", runs::common(model).dropout);
  if (comparison.machine.device != defaults.device) command += " --device " + comparison.machine.device;
  if (training.precision != defaults.precision) command += " --precision " + training.precision;
  if (!known || training.learning_rate != preset->training.learning_rate)
    command += fmt::format(" --learning-rate {}", training.learning_rate);
  if (settings.tune > 0) command += fmt::format(" --tune {}", settings.tune);
  for (const std::string& assignment : settings.set) command += " --set " + shell_word(assignment);
  std::vector<std::string> defined;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    // Several forms may use the same map.
    if (plan.definition.empty() || std::find(defined.begin(), defined.end(), plan.definition) != defined.end())
      continue;
    defined.push_back(plan.definition);
    const std::size_t hash = plan.definition.find(" sha256:");
    command += hash == std::string::npos ? " --define " + shell_word(plan.definition)
                                         : " --mechanism-file " + shell_word(plan.definition.substr(0, hash));
  }
  return command + " --baseline " + shell_word(comparison.baseline_family());
}

}  // namespace cogwheel::compare
