// Whether trained heads look for what they offer: how symmetric W_Q W_Kᵀ is, which K = Q makes it by force.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/score_symmetry.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace symmetry {

// By layer, [tokens, width]: what attention reads, before the norm's gain, and with its bias where there is one.
std::vector<at::Tensor> inputs_of(const StudiedRun& run, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  tasks::language::LanguageModelImpl& model = **run.model;
  std::vector<at::Tensor> inputs(model.layers().size());
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::attention_norm, [&](const nn::HookPoint& at, const at::Tensor& value) {
    inputs[static_cast<std::size_t>(at.layer)] = value[0].to(at::kDouble);
  });
  model.forward(token_row(run, tokens), {.hooks = &hooks});
  return inputs;
}

// Asymmetries of `count` matrices of two independent normal ones, as heads of this size are before training.
at::Tensor random_asymmetries(std::int64_t head_dim, std::int64_t width, std::uint64_t seed, std::int64_t count) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<at::Tensor> found;
  for (std::int64_t each = 0; each < count; ++each) {
    const at::Tensor query = at::randn({head_dim, width}, generator, at::kDouble);
    found.push_back(interpret::asymmetry(query.t().mm(at::randn({head_dim, width}, generator, at::kDouble))));
  }
  return at::stack(found);
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  const bool with_gains = parameters.whole("gains") == 1;
  constexpr std::int64_t drawn = 50;
  NumbersByRun numbers(runs.size());
  pages::TextTable heads{
      "Every head", {"run", "head", "asymmetry", "symmetric share", "symmetric share on the text"}, {}};
  for (std::size_t each = 0; each < runs.size(); ++each) {
    const StudiedRun& given = runs[each];
    tasks::language::LanguageModelImpl& model = **given.model;
    const std::vector<at::Tensor> matrices = interpret::query_key_matrices(model, with_gains),
                                  with_all = interpret::query_key_matrices(model, true),
                                  inputs = inputs_of(given, parameters.whole("tokens"));
    std::vector<double> all, shares, on_text;
    for (std::size_t layer = 0; layer < matrices.size(); ++layer) {
      if (!matrices[layer].defined()) continue;
      const auto at = static_cast<std::int64_t>(layer);
      const std::int64_t halves = find_mechanism(tasks::language::layer_mechanism(model.options(), at)).sub_heads();
      const at::Tensor ratio = interpret::asymmetry(matrices[layer]),
                       share = interpret::symmetric_share(matrices[layer]);
      const at::Tensor scores = inputs[layer].matmul(with_all[layer]).matmul(inputs[layer].t());
      const at::Tensor of_scores = interpret::symmetric_share(scores);
      std::vector<double> of_layer;
      for (std::int64_t head = 0; head < ratio.size(0); ++head) {
        of_layer.push_back(ratio[head].item<double>());
        shares.push_back(share[head].item<double>());
        on_text.push_back(of_scores[head].item<double>());
        heads.rows.push_back({given.name, sub_head_name(at, head, halves), study_number(of_layer.back()),
                              study_number(shares.back()), study_number(on_text.back())});
      }
      numbers.set(each, "of_layer", static_cast<double>(layer), mean_of_finite(of_layer));
      all.insert(all.end(), of_layer.begin(), of_layer.end());
    }
    if (all.empty()) throw UsageError(expected_got(given.name, "layers of attention", model.options().mechanism));
    const at::Tensor random = random_asymmetries(model.options().used_head_dim(), model.options().width,
                                                 static_cast<std::uint64_t>(parameters.whole("seed")), drawn);
    numbers.set(each, "mean", mean_of_finite(all));
    numbers.set(each, "least", std::ranges::min(all));
    numbers.set(each, "most", std::ranges::max(all));
    numbers.set(each, "symmetric_share", mean_of_finite(shares));
    numbers.set(each, "symmetric_share_on_text", mean_of_finite(on_text));
    numbers.set(each, "random", random.mean().item<double>());
    numbers.set(each, "random_deviation", random.std().item<double>());
  }
  StudyResult result;
  result.answer =
      fmt::format("‖M − Mᵀ‖ / ‖M + Mᵀ‖ of M = W_Q W_Kᵀ is {} on average over heads, where random matrices have {:.3g}.",
                  numbers.told(groups, "mean"), mean_of_finite(numbers.values("random")));
  result.tables = {{"models", table_of_groups("‖M − Mᵀ‖ / ‖M + Mᵀ‖ over heads", groups, numbers,
                                              {{"mean", "mean"},
                                               {"least", "least"},
                                               {"most", "most"},
                                               {"random matrices", "random"},
                                               {"their deviation", "random_deviation"},
                                               {"symmetric share", "symmetric_share"},
                                               {"the same on the text", "symmetric_share_on_text"}})},
                   {"layers", table_by_place("By layer, mean over heads", "layer", groups, numbers,
                                             {{"‖M − Mᵀ‖ / ‖M + Mᵀ‖", "of_layer"}})},
                   {"heads", heads, false}};
  pages::LineChart chart{.title = "Asymmetry by layer",
                         .x = {.title = "layer"},
                         .y = {.title = "‖M − Mᵀ‖ / ‖M + Mᵀ‖"},
                         .series = {},
                         .marks = {{pages::ChartMark::Axis::y, 1, "random"}},
                         .caption = "0: symmetric. Mean over heads; bars: intervals of 95 % over runs."};
  for (const RunGroup& group : groups) chart.series.push_back(numbers.series(group, "of_layer"));
  result.charts.push_back(std::move(chart));
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"0 is symmetric, 1 is chance:",
       "independent W_Q and W_K give 1 − 1/width on average, with the deviation that the table has; above that M is "
       "more skew than chance. K = Q gives 0."},
      {"Positions are left out,",
       "rotations of queries and keys too: M is what matrices alone make of two tokens. A "
       "rotation by the distance makes scores of two places differ whichever M is."},
      {"The symmetric share",
       "is ‖(M + Mᵀ)/2‖² / ‖M‖² = 1/(1 + asymmetry²), of tokens that point anywhere; on the text "
       "it is that of the scores xᵢᵀ M xⱼ of its tokens, gains included, of all pairs."},
      {"What K = Q loses by it", "is a comparison: cogwheel compare --attention softmax,symmetric."}};
  return result;
}

}  // namespace symmetry

StudyEntry symmetry_study() {
  return {.name = "symmetry",
          .title = "Do heads look for what they offer",
          .question = "How symmetric are the scores of heads, beside random ones?",
          .parameters = {{{"tokens", {128}, {2, 4096}, "of the text, as far as it goes and the context holds them"},
                          {"gains", {0}, {0, 1}, "1: the gain of the norm before is part of W_Q and W_K"},
                          {"seed", {0}, {0, 1e9}, "of the random matrices"}}},
          .run = symmetry::run,
          .reads_text = true,
          .numbers = {{"mean", "‖M − Mᵀ‖ / ‖M + Mᵀ‖, mean over heads"},
                      {"least", "the same of the most symmetric head"},
                      {"most", "the same of the least symmetric head"},
                      {"of_layer", "the same, mean over the heads of a layer", "layer, from 0"},
                      {"random", "the same of random matrices of this size"},
                      {"random_deviation", "its deviation over these"},
                      {"symmetric_share", "share of ‖M‖² that is symmetric, mean over heads"},
                      {"symmetric_share_on_text", "share of the squared scores of the text that is symmetric"}}};
}

}  // namespace cogwheel::inspect
