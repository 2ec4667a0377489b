#include "cogwheel/surgery/convert_run.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/interchange/import_run.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/convertible.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_task.h"
#include "cogwheel/tasks/language/language_preset.h"
#include "cogwheel/tasks/language/load_language_model.h"

namespace cogwheel::surgery {
namespace {

namespace language = tasks::language;
using language::LanguageModel;
using language::LanguageModelOptions;

// Layers are swapped one by one on so many held-out tokens.
constexpr std::int64_t swapped_tokens = 32'768;

std::vector<runs::RunFile> files_of_model(const runs::RunFolder& run) {
  std::vector<runs::RunFile> files;
  std::error_code problem;
  for (const std::string& name : runs::asset_files())
    if (std::filesystem::is_regular_file(run.path() / name, problem))
      files.push_back({name, read_file(run.path() / name)});
  return files;
}

runs::RunConfig converted_config(runs::RunConfig config, const std::vector<std::string>& assignments,
                                 const std::string& run) {
  for (const std::string& assignment : assignments)
    if (!assignment.starts_with("model."))
      throw UsageError(expected_got("convert: --set", "a key of the model", assignment));
  const auto start = config.model.as<LanguageModelOptions>();
  if (!assignments.empty()) runs::set_options(config, assignments);
  auto& model = config.model.as<LanguageModelOptions>();
  try {
    language::expect_convertible(start, model, run);
    language::check(model);
  } catch (const UsageError& error) {
    throw UsageError(std::string("convert: ") + error.what());
  }
  model.feed_forward = model.feed_forward_width();
  // What it learned from other runs is in the weights.
  if (runs::find_task(config.task.name).reads_text) config.task.values.clear();
  config.definition = LayerPattern(model.mechanism).definition();
  return config;
}

bool has_data(const runs::RunConfig& config) {
  return !runs::find_task(config.task.name).reads_text || !config.data.sha256.empty();
}

}  // namespace

struct RunConversion::Models {
  runs::RunFolder folder;
  runs::RunConfig before, after;
  std::shared_ptr<LanguageModel> given;
  LanguageModel made{nullptr};
  std::vector<nn::ConvertedPart> parts;

  std::shared_ptr<const runs::Task> task(const runs::RunConfig& config) const {
    return runs::make_task(config, folder.path());
  }
};

RunConversion::RunConversion(const runs::RunFolder& run, const std::vector<std::string>& assignments,
                             const std::vector<std::string>& text)
    : models_(new Models{.folder = run,
                         .before = runs::load_config(run.config_path()),
                         .after = {},
                         .given = language::load_language_model(run),
                         .made = LanguageModel{nullptr},
                         .parts = {}}) {
  Models& models = *models_;
  if (!text.empty()) {
    models.before.data.text.clear();
    for (const std::string& path : text) models.before.data.text.push_back(runs::recorded_path(path, "--text"));
    models.before.data.corpus.clear();
    models.before.data.sha256.clear();
    models.before.data.byte_limit = 0;
    models.before = models.task(models.before)->completed(models.before);
  }
  models.after = converted_config(models.before, assignments, run.path().string());
  models.made = LanguageModel(models.after.model.as<LanguageModelOptions>());
  models.made->initialize(models.after.training.seed);
  models.parts = nn::convert_weights(**models.given, *models.made);
}

RunConversion::RunConversion(RunConversion&&) noexcept = default;
RunConversion::~RunConversion() = default;

const runs::RunConfig& RunConversion::before() const { return models_->before; }
const runs::RunConfig& RunConversion::config() const { return models_->after; }
const std::vector<nn::ConvertedPart>& RunConversion::parts() const { return models_->parts; }

MeasuredConversion RunConversion::measure() const {
  const torch::NoGradGuard no_grad;
  const runs::Measure measure = runs::find_task(models_->before.task.name).description.decisive();
  MeasuredConversion measured{.measure = measure.name, .label = measure.title};
  if (!has_data(models_->before)) {
    measured.unknown = "the run has weights and no text; --text names one";
    return measured;
  }
  const auto value_of = [&](const runs::RunConfig& config, torch::nn::Module& model) {
    auto task = models_->task(config);
    const std::int64_t all = task->data(config.model, config.training).evaluated_tokens,
                       window = std::max<std::int64_t>(1, task->data(config.model, config.training).window);
    measured.tokens = std::min(all, std::max(window, language::evaluated_tokens / window * window));
    if (measured.tokens < all) task = task->limited(measured.tokens);
    return *runs::find_value(task->evaluate(model, config.training, runs::EvaluationPart::whole, nullptr),
                             measure.name);
  };
  try {
    measured.before = value_of(models_->before, **models_->given);
    measured.after = value_of(models_->after, *models_->made);
  } catch (const Error& error) {  // data that are gone or have changed say nothing of the weights
    measured.before = measured.after = std::nullopt;
    measured.unknown = error.what();
  }
  return measured;
}

LayerSwaps RunConversion::one_by_one() const {
  if (!has_data(models_->before))
    throw UsageError(expected_got("convert: --one-by-one", "a run with a text, or --text", "weights alone"));
  const auto task = models_->task(models_->before);
  const auto* const on_text = dynamic_cast<const language::LanguageModelTask*>(task.get());
  if (on_text == nullptr)
    throw UsageError(expected_got("convert: --one-by-one", "a run on a text", "the task " + models_->before.task.name));
  const std::int64_t context = std::min((*models_->given)->options().context, models_->made->options().context);
  return layer_swaps(*models_->given, models_->made,
                     on_text->held_out_windows_of(context, swapped_tokens, models_->before.training.seed));
}

runs::RunFolder RunConversion::write(const std::filesystem::path& folder, bool overwrite) const {
  std::error_code problem;
  if (std::filesystem::equivalent(folder, models_->folder.path(), problem))
    throw UsageError(expected_got("convert: --out", "another folder than that of the run", folder.string()));
  interchange::ImportedModel run{
      .architecture = {}, .config = models_->after, .weights = {}, .files = files_of_model(models_->folder)};
  for (const auto& parameter : models_->made->named_parameters())
    run.weights[parameter.key()] = parameter.value().detach();
  return interchange::write_imported_run(run, folder, overwrite);
}

}  // namespace cogwheel::surgery
