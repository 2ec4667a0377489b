// How many directions the scores and weights of heads use. Powers and matrix functions of QQᵀ are claimed
// to be of low rank, exponentials of each entry to be so in practice.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/matrix_rank.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace ranks {

// Queries and keys of one head, [N, D].
struct Head {
  std::string name;
  at::Tensor query, key;
  std::int64_t layer = 0;
};

std::vector<Head> heads_of(const StudiedRun& run, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  tasks::language::LanguageModelImpl& model = **run.model;
  std::map<std::int64_t, at::Tensor> queries, keys;
  std::map<std::int64_t, std::int64_t> outputs;  // heads, of which a difference has half as many as queries
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::heads,
             [&](const nn::HookPoint& at, const at::Tensor& z) { outputs[at.layer] = z.size(2); });
  // The later of the two places, where positions are rotated in.
  for (const nn::HookPlace place : {nn::HookPlace::query, nn::HookPlace::rotated_query})
    hooks.read(place, [&](const nn::HookPoint& at, const at::Tensor& value) { queries[at.layer] = value[0]; });
  for (const nn::HookPlace place : {nn::HookPlace::key, nn::HookPlace::rotated_key})
    hooks.read(place, [&](const nn::HookPoint& at, const at::Tensor& value) { keys[at.layer] = value[0]; });
  model.forward(token_row(run, tokens), {.hooks = &hooks});
  std::vector<Head> heads;
  for (const auto& [layer, query] : queries) {
    const at::Tensor& key = keys.at(layer);
    if (query.dim() != 3 || key.dim() != 3 || query.size(2) != key.size(2)) continue;
    const std::int64_t sharing = query.size(1) / key.size(1);
    for (std::int64_t head = 0; head < query.size(1); ++head)
      heads.push_back({sub_head_name(layer, head, query.size(1) / outputs.at(layer)), query.select(1, head),
                       key.select(1, head / sharing), layer});
  }
  if (heads.empty())
    throw UsageError(expected_got(run.name, "layers with queries and keys", model.options().mechanism));
  return heads;
}

std::vector<Head> random_heads(std::int64_t tokens, std::int64_t width, std::uint64_t seed, std::int64_t count) {
  std::vector<Head> heads;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::int64_t head = 0; head < count; ++head) {
    const auto draw = [&] { return at::randn({tokens, width}, generator, at::kDouble); };
    const at::Tensor query = draw();
    heads.push_back({"H" + std::to_string(head), query, draw()});
  }
  return heads;
}

// Of one matrix, over heads.
struct Summary {
  std::vector<interpret::MatrixRank> heads;

  template <class Number>
  double mean(const Number& number) const {
    double sum = 0;
    for (const interpret::MatrixRank& head : heads) sum += static_cast<double>(number(head));
    return sum / static_cast<double>(heads.size());
  }
  // Of the singular values as shares of the largest, on a logarithmic scale.
  std::vector<double> spectrum() const {
    std::vector<double> mean(heads.front().singular_values.size());
    for (const interpret::MatrixRank& head : heads)
      for (std::size_t place = 0; place < mean.size(); ++place)
        mean[place] += std::log(std::max(head.singular_values[place] / head.singular_values.front(), 1e-18)) /
                       static_cast<double>(heads.size());
    for (double& each : mean) each = std::exp(each);
    return mean;
  }
};

// Of whose rank claims can be made, and what their numbers are called.
constexpr std::pair<const char*, const char*> claimed_matrices[] = {{"QKᵀ", "score"},
                                                                    {"QQᵀ", "gram"},
                                                                    {"exp(QQᵀ)", "exponential"},
                                                                    {"exp(QQᵀ) − I", "exponential_less_identity"},
                                                                    {"softmax", "softmax"},
                                                                    {"softmax, causal", "causal_softmax"},
                                                                    {"Cog", "cog"},
                                                                    {"Cog, causal", "causal_cog"}};

std::vector<StudyNumber> numbers_of_matrices() {
  std::vector<StudyNumber> all;
  for (const auto& [matrix, name] : claimed_matrices) {
    all.push_back({std::string(name) + "_rank", std::string("numerical rank of ") + matrix + ", mean over heads"});
    all.push_back({std::string(name) + "_effective_rank", std::string("effective rank of ") + matrix});
    all.push_back({std::string(name) + "_effective_rank_of_layer",
                   std::string("effective rank of ") + matrix + ", mean over the heads of a layer", "layer, from 0"});
  }
  return all;
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  StudyResult result;
  pages::TextTable summary{
      "Mean over heads",
      {"heads of", "matrix", "numerical rank", "least", "most", "effective rank", "stable rank", "negative entries"},
      {}};
  pages::TextTable each_head{
      "Every head",
      {"heads of", "head", "matrix", "numerical rank", "effective rank", "stable rank", "negative entries"},
      {}};
  pages::TextTable spectra{"Singular values", {"heads of", "head", "matrix", "index", "σ / σ₁"}, {}};
  std::int64_t most_of_low = 0, tokens = 0;
  std::vector<pages::Told> effective;
  const auto of_most = [](const Summary& of) {
    return std::ranges::max(of.heads, {}, &interpret::MatrixRank::numerical).numerical;
  };
  const double norm = parameters.number("norm");
  NumbersByRun numbers(runs.size());
  const auto measure = [&](const std::string& name, const std::vector<Head>& heads, std::optional<std::size_t> run) {
    std::vector<std::string> order;
    std::map<std::string, Summary> found;
    for (const Head& head : heads)
      for (const interpret::NamedMatrix& matrix : interpret::score_matrices(head.query, head.key, norm)) {
        if (!found.contains(matrix.name)) order.push_back(matrix.name);
        const interpret::MatrixRank rank = interpret::matrix_rank(matrix.values);
        found[matrix.name].heads.push_back(rank);
        each_head.rows.push_back({name, head.name, matrix.name, std::to_string(rank.numerical),
                                  study_number(rank.effective), study_number(rank.stable),
                                  study_number(rank.negative_share)});
        for (std::size_t place = 0; place < rank.singular_values.size(); ++place)
          spectra.rows.push_back({name, head.name, matrix.name, std::to_string(place + 1),
                                  study_number(rank.singular_values[place] / rank.singular_values.front())});
      }
    pages::LineChart chart{.title = name + ": singular values",
                           .x = {.title = "index"},
                           .y = {.title = "σ / σ₁", .logarithmic = true, .min = 1e-17, .max = 1.},
                           .series = {},
                           .caption = "Geometric means over heads. Below about 1e-16 is rounding."};
    for (const std::string& matrix : order) {
      const Summary& of = found.at(matrix);
      const auto [least, most] = std::ranges::minmax(of.heads, {}, &interpret::MatrixRank::numerical);
      summary.rows.push_back({name, matrix,
                              study_number(of.mean([](const interpret::MatrixRank& r) { return r.numerical; })),
                              std::to_string(least.numerical), std::to_string(most.numerical),
                              study_number(of.mean([](const interpret::MatrixRank& r) { return r.effective; })),
                              study_number(of.mean([](const interpret::MatrixRank& r) { return r.stable; })),
                              study_number(of.mean([](const interpret::MatrixRank& r) { return r.negative_share; }))});
      if (matrix != "QKᵀ" && matrix != "exp(QQᵀ) − I" && matrix != "softmax" && matrix != "softmax, causal" &&
          matrix != "Cog, causal")
        continue;
      const std::vector<double> spectrum = of.spectrum();
      pages::ChartSeries series{.name = matrix, .x = {}, .y = spectrum, .points = false};
      for (std::size_t place = 0; place < spectrum.size(); ++place) series.x.push_back(static_cast<double>(place + 1));
      chart.series.push_back(std::move(series));
    }
    result.charts.push_back(std::move(chart));
    most_of_low = std::max({most_of_low, of_most(found.at("QKᵀ")), of_most(found.at("exp(QQᵀ) − I"))});
    const double rank = found.at("softmax").mean([](const interpret::MatrixRank& r) { return r.effective; });
    effective.push_back({name, rank, fmt::format("{:.3g}", rank)});
    if (!run) return;
    for (const auto& [matrix, prefix] : claimed_matrices) {
      const Summary& of = found.at(matrix);
      const std::string effective_rank = std::string(prefix) + "_effective_rank";
      numbers.set(*run, std::string(prefix) + "_rank",
                  of.mean([](const interpret::MatrixRank& r) { return r.numerical; }));
      numbers.set(*run, effective_rank, of.mean([](const interpret::MatrixRank& r) { return r.effective; }));
      std::map<std::int64_t, std::vector<double>> by_layer;
      for (std::size_t head = 0; head < heads.size(); ++head)
        by_layer[heads[head].layer].push_back(of.heads[head].effective);
      for (const auto& [layer, ranks] : by_layer)
        numbers.set(*run, effective_rank + "_of_layer", static_cast<double>(layer), mean_of_finite(ranks));
    }
  };
  for (const StudiedRun& each : runs) {
    const std::vector<Head> heads = heads_of(each, parameters.whole("tokens"));
    tokens = std::max(tokens, heads.front().query.size(0));
    if (&each == &runs.front())
      measure("random",
              random_heads(heads.front().query.size(0), heads.front().query.size(1),
                           static_cast<std::uint64_t>(parameters.whole("seed")), std::ssize(heads)),
              std::nullopt);
    measure(each.name, heads, static_cast<std::size_t>(&each - runs.data()));
  }
  result.answer = fmt::format(
      "Of {} tokens, QKᵀ and exp(QQᵀ) − I have rank {} at most, in trained heads as in random ones, and softmax an "
      "effective rank of {}.",
      tokens, most_of_low, pages::told(effective));
  const std::vector<RunGroup> groups = groups_of(runs);
  pages::TextTable source{"Beside what the notes on the symmetric transformer show of a talk",
                          {"heads of", "QKᵀ, numerical rank", "softmax, rank", "softmax, effective rank"},
                          {{"the notes", "128", "300", ""}}};
  for (const RunGroup& group : groups)
    source.rows.push_back({group.name, numbers.cell(group, "score_rank"), numbers.cell(group, "softmax_rank"),
                           numbers.cell(group, "softmax_effective_rank")});
  result.tables = {{"ranks", summary},
                   {"layers", table_by_place("Effective rank by layer, mean over heads", "layer", groups, numbers,
                                             {{"QKᵀ", "score_effective_rank_of_layer"},
                                              {"QQᵀ", "gram_effective_rank_of_layer"},
                                              {"softmax", "softmax_effective_rank_of_layer"},
                                              {"softmax, causal", "causal_softmax_effective_rank_of_layer"},
                                              {"Cog, causal", "causal_cog_effective_rank_of_layer"}})},
                   {"source", source},
                   {"heads", each_head, false},
                   {"spectra", spectra, false}};
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"A matrix function is I plus low rank:",
       "f(A) = f(0) I + Q g(M) Qᵀ with g(x) = (f(x) − f(0)) / x and M = QᵀQ. exp(A) itself has full rank, exp(A) − I "
       "that of "
       "Q. Without scaling, exp(A) is so large that I drowns in its rounding, and it seems to be of low rank."},
      {"A causal mask raises the rank:",
       "the lower half of a matrix of low rank has full rank, unless its diagonal has zeros."},
      {"Of each entry is not of the matrix:",
       "the exponential of each entry, softmax and Cog are not functions of the matrix. Their rank is found, not "
       "derived; the "
       "numerical rank counts directions above rounding, the effective and the stable one those that carry weight."},
      {"QQᵀ has no negative eigenvalue,", "which does not make its entries, or those of exp(QQᵀ), positive."},
      {"The notes' 128 and about 300",
       "are read from a picture, which tells neither the number of tokens nor which rank "
       "is meant; 128 is the usual width of a head."}};
  return result;
}

}  // namespace ranks

StudyEntry ranks_study() {
  return {
      .name = "ranks",
      .title = "How many directions heads use",
      .question =
          "Of what rank are scores, their powers and exponentials, and weights, in trained heads and in random ones?",
      .parameters =
          {{{"tokens", {256}, {8, 2048}, "of the text, as far as it goes and the context holds them"},
            {"norm", {8}, {0.01, 30}, "largest eigenvalue of QQᵀ before its exponential", LabParameter::Kind::real},
            {"seed", {0}, {0, 1e9}, "of the random queries and keys"}}},
      .run = ranks::run,
      .reads_text = true,
      .numbers = ranks::numbers_of_matrices()};
}

}  // namespace cogwheel::inspect
