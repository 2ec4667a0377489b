// Where the eigenvalues of attention matrices lie, the reason that is given for centred attention: Ali et al.,
// "Centered Self-Attention Layers" (2023).
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/attention_spectrum.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace spectrum {

struct Measured {
  const char *name, *title, *meaning;
  double interpret::AttentionSpectrum::*member;
  bool unmasked;
};
using Spectrum = interpret::AttentionSpectrum;
constexpr Measured measured[] = {
    {"least", "least eigenvalue", "the least eigenvalue", &Spectrum::least, false},
    {"largest", "largest", "the largest eigenvalue", &Spectrum::largest, false},
    {"least_symmetric", "least of (A + Aᵀ)/2", "the least eigenvalue of the symmetric part", &Spectrum::least_symmetric,
     false},
    {"largest_symmetric", "largest of it", "the largest eigenvalue of the symmetric part", &Spectrum::largest_symmetric,
     false},
    {"largest_singular", "σ₁", "the largest singular value", &Spectrum::largest_singular, false},
    {"unmasked_least", "least real part", "the least real part of an eigenvalue, no key hidden", &Spectrum::least,
     true},
    {"unmasked_largest", "largest", "the largest real part of an eigenvalue, no key hidden", &Spectrum::largest, true},
    {"unmasked_imaginary", "largest imaginary part", "the largest imaginary part of an eigenvalue, no key hidden",
     &Spectrum::imaginary, true},
    {"unmasked_radius", "largest |λ|", "the largest |λ|, no key hidden", &Spectrum::radius, true},
    {"unmasked_second", "next |λ|", "the second largest |λ|, no key hidden", &Spectrum::second, true}};
constexpr const char* of_layer = "_of_layer";

// By layer, [heads, N, N].
struct Maps {
  std::map<std::int64_t, at::Tensor> masked = {}, unmasked = {};
};

Maps maps_of_language_model(const StudiedRun& run, std::int64_t tokens) {
  tasks::language::LanguageModelImpl& model = **run.model;
  const at::Tensor row = token_row(run, tokens);
  Maps maps;
  nn::Hooks hooks;
  for (std::size_t layer = 0; layer < model.layers().size(); ++layer)
    if (model.layers()[layer]->has_hook(nn::HookPlace::scores))
      hooks.read(
          nn::HookPlace::pattern,
          [&](const nn::HookPoint& at, const at::Tensor& value) { maps.masked[at.layer] = value[0].to(at::kDouble); },
          static_cast<std::int64_t>(layer));
  model.forward(row, {.hooks = &hooks});
  const std::vector<at::Tensor> unmasked = interpret::unmasked_attention(model, row);
  for (std::size_t layer = 0; layer < unmasked.size(); ++layer)
    if (unmasked[layer].defined()) maps.unmasked[static_cast<std::int64_t>(layer)] = unmasked[layer];
  return maps;
}

// The first input of training by seed 0, which runs on the same data share.
Maps maps_of_other_model(const StudiedRun& run) {
  runs::TrainingOptions training = run.config.training;
  training.seed = 0;
  const runs::Batch batch = run.task->batch(*run.pass->module, training, {});
  runs::PassInputs inputs;
  std::int64_t length = 0;
  for (const runs::PassInput& input : run.config.model.entry().inputs) {
    const at::Tensor all = input.name == "tokens" || input.name == "images" ? batch.inputs
                           : input.name == "segments"                       ? batch.segments
                           : input.name == "lengths"                        ? batch.lengths
                                                                            : at::Tensor();
    if (all.defined())
      inputs.insert(input.name, all.narrow(0, 0, 1));
    else if (!input.optional)
      throw UsageError(expected_got(run.name, "a language model, an encoder or a classifier of images",
                                    "a run of the task " + run.config.task.name));
    if (all.defined() && input.name == "lengths") length = all[0].item<std::int64_t>();
  }
  Maps maps;
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::pattern, [&](const nn::HookPoint& at, const at::Tensor& value) {
    const std::int64_t tokens = length > 0 ? length : value.size(-1);
    maps.masked[at.layer] = value[0].narrow(-1, 0, tokens).narrow(-2, 0, tokens).to(at::kDouble);
  });
  run.pass->run(inputs, {.hooks = &hooks});
  maps.unmasked = maps.masked;
  return maps;
}

void measure(NumbersByRun& numbers, pages::TextTable& heads, std::size_t at, const StudiedRun& run,
             std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  const Maps maps = run.pass != nullptr ? maps_of_other_model(run) : maps_of_language_model(run, tokens);
  if (maps.masked.empty())
    throw UsageError(
        expected_got(run.name, "layers of attention", runs::common(std::as_const(run.config.model)).mechanism));
  std::map<std::string, std::vector<double>> all;
  for (const auto& [layer, of] : maps.masked) {
    std::map<std::string, std::vector<double>> of_heads;
    const auto whole = maps.unmasked.find(layer);
    for (std::int64_t head = 0; head < of.size(0); ++head) {
      const Spectrum masked = interpret::attention_spectrum(of[head]);
      const Spectrum open =
          whole == maps.unmasked.end() ? Spectrum{} : interpret::attention_spectrum(whole->second[head]);
      std::vector<std::string> cells{run.name, head_name(layer, head)};
      for (const Measured& each : measured) {
        if (each.unmasked && whole == maps.unmasked.end()) {
          cells.emplace_back();
          continue;
        }
        const double value = (each.unmasked ? open : masked).*each.member;
        of_heads[each.name].push_back(value);
        cells.push_back(study_number(value));
      }
      heads.rows.push_back(std::move(cells));
    }
    for (const auto& [name, values] : of_heads) {
      numbers.set(at, name + of_layer, static_cast<double>(layer), mean_of_finite(values));
      all[name].insert(all[name].end(), values.begin(), values.end());
    }
  }
  for (const auto& [name, values] : all) numbers.set(at, name, mean_of_finite(values));
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  pages::TextTable heads{"Every head", {"run", "head"}, {}};
  std::vector<std::pair<std::string, std::string>> masked, unmasked;
  for (const Measured& each : measured) {
    heads.columns.push_back(std::string(each.unmasked ? "unmasked: " : "") + each.title);
    (each.unmasked ? unmasked : masked).emplace_back(each.title, each.name);
  }
  for (std::size_t each = 0; each < runs.size(); ++each)
    measure(numbers, heads, each, runs[each], parameters.whole("tokens"));
  StudyResult result;
  result.answer = fmt::format(
      "Eigenvalues of attention matrices reach from {} to {}, and from {} to {} in their real parts where no key is "
      "hidden.",
      numbers.told(groups, "least"), numbers.told(groups, "largest"), numbers.told(groups, "unmasked_least"),
      numbers.told(groups, "unmasked_largest"));
  result.tables = {{"masked", table_of_groups("As the model has them: mean over heads", groups, numbers, masked)},
                   {"unmasked", table_of_groups("With no key hidden: mean over heads", groups, numbers, unmasked)},
                   {"heads", heads, false}};
  for (const auto& [title, least, largest] :
       {std::tuple{"as the model has them", "least_of_layer", "largest_of_layer"},
        std::tuple{"(A + Aᵀ)/2", "least_symmetric_of_layer", "largest_symmetric_of_layer"},
        std::tuple{"real parts, no key hidden", "unmasked_least_of_layer", "unmasked_largest_of_layer"}}) {
    pages::LineChart chart{.title = std::string("Least and largest eigenvalue: ") + title,
                           .x = {.title = "layer"},
                           .y = {.title = "eigenvalue"},
                           .series = {},
                           .caption = "Mean over heads; bars: intervals of 95 % over runs."};
    for (const RunGroup& group : groups)
      for (const auto& [number, name] : {std::pair{least, ", least"}, std::pair{largest, ", largest"}}) {
        chart.series.push_back(numbers.series(group, number));
        chart.series.back().name += name;
      }
    result.charts.push_back(std::move(chart));
  }
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"A causal matrix has its diagonal as eigenvalues:",
       "what each token weighs itself with, whatever else it weighs. So they say little of what the matrix mixes: the "
       "symmetric part bounds xᵀAx, and σ₁ how much longer a vector can become."},
      {"The first query sees only itself,", "so 1, or −1, is always among the eigenvalues of softmax and Cog."},
      {"With no key hidden",
       "a language model's matrix is that of the same queries and keys, for which it was not trained: of softmax 1 is "
       "an eigenvalue and no other is larger, of centred attention 0 is in its place. Layers with a window or ALiBi "
       "have "
       "no such matrix. An encoder hides nothing: both tables have its own."},
      {"An encoder, or a classifier of images, reads", "the first row of its training data by seed 0, not the text."},
      {"Matrices grow with the text:", "compare at one number of tokens."}};
  return result;
}

std::vector<StudyNumber> declared() {
  std::vector<StudyNumber> all;
  for (const Measured& each : measured) {
    all.push_back({each.name, std::string(each.meaning) + ", mean over heads"});
    all.push_back({std::string(each.name) + of_layer, std::string(each.meaning) + ", mean over the heads of a layer",
                   "layer, from 0"});
  }
  return all;
}

}  // namespace spectrum

StudyEntry spectrum_study() {
  return {.name = "spectrum",
          .title = "Eigenvalues of attention",
          .question = "Between which bounds do the eigenvalues of attention matrices lie?",
          .parameters = {{{"tokens", {128}, {2, 1024}, "of the text, as far as it goes and the context holds them"}}},
          .run = spectrum::run,
          .reads_text = true,
          .numbers = spectrum::declared(),
          .asks = Asked::any_models};
}

}  // namespace cogwheel::inspect
