// What heads become in training: how peaked, how negative, how different from each other. The
// numbers over training are those of metrics.jsonl, which the run measured itself.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/head_distance.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel {
namespace heads {

using Member = double HeadStatistics::*;

// Over heads, those that have none left out; a layer of −1 is all.
double mean_over_heads(const StatisticsOfHeads& layers, Member member, std::int64_t layer = -1) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t at = 0; at < layers.size(); ++at)
    for (const HeadStatistics& head : layers[at])
      if ((layer < 0 || layer == static_cast<std::int64_t>(at)) && std::isfinite(head.*member))
        sum += head.*member, ++count;
  return count == 0 ? HeadStatistics::none : sum / static_cast<double>(count);
}

// Weights of a text by layer, [heads, N, N].
std::map<std::int64_t, at::Tensor> maps_of(const StudiedRun& run, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  std::map<std::int64_t, at::Tensor> maps;
  Hooks hooks;
  hooks.read(HookPlace::pattern, [&](const HookPoint& at, const at::Tensor& value) {
    if (value.dim() == 4) maps[at.layer] = value[0].to(at::kDouble);
  });
  (*run.model)->forward(token_row(run, tokens), {.hooks = &hooks});
  return maps;
}

// Shares of the weights of queries that see two keys or more, in equal bins of [−1, 1].
std::vector<double> shares_of_weights(const at::Tensor& maps, std::int64_t bins) {
  const std::int64_t tokens = maps.size(-1);
  const at::Tensor visible = at::ones({tokens, tokens}, at::kBool).tril();
  visible[0].fill_(false);
  const at::Tensor weights = maps.masked_select(visible).clamp(-1, 1);
  const at::Tensor counts = at::histc(weights, bins, -1, 1) / static_cast<double>(weights.numel());
  return {counts.const_data_ptr<double>(), counts.const_data_ptr<double>() + bins};
}

void expect_history(const StudiedRun& run) {
  if (run.history.empty())
    throw UsageError(expected_got(run.name, "a run that measured its heads while it trained",
                                  "one without (imported, or without evaluations)"));
}

struct Charted {
  Member member;
  const char *title, *meaning;
  bool last_layer = false;
};

constexpr Charted charted[] = {
    {&HeadStatistics::kurtosis, "Kurtosis of weights",
     "Of a query's weights over the keys it sees: high where a few have most."},
    {&HeadStatistics::normalized_entropy, "Entropy over log n", "1 for equal magnitudes, 0 for a single key."},
    {&HeadStatistics::sink, "Weight on the first token", "Mean magnitude: a sink."},
    {&HeadStatistics::positive_share, "Share of positive weights", "Of the keys that a query sees."},
    {&HeadStatistics::sign_consistency, "One sign, last layer", "1 where all weights of a head have the same sign.",
     true},
    {&HeadStatistics::value_bias, "‖E[v]‖ over rms v", "0 where values are centred."},
    {&HeadStatistics::output_norm, "E‖o‖", "Norm of a head's output."},
};

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  for (const StudiedRun& each : runs) expect_history(each);
  StudyResult result;
  const std::vector<RunGroup> groups = groups_of(runs);
  const std::int64_t bins = parameters.whole("bins");

  TextTable over_training{"Over training", {"run", "step", "layer", "head", "statistic", "value"}, {}};
  for (const StudiedRun& each : runs)
    for (const StepReport& report : each.history)
      for (std::size_t layer = 0; layer < report.heads.size(); ++layer)
        for (std::size_t head = 0; head < report.heads[layer].size(); ++head)
          for (const HeadStatistic& statistic : head_statistics)
            if (const double value = report.heads[layer][head].*statistic.member; std::isfinite(value))
              over_training.rows.push_back({each.name, std::to_string(report.step), std::to_string(layer),
                                            std::to_string(head), std::string(statistic.name), study_number(value)});

  TextTable histogram{"Weights of the text", {"run", "layer", "from", "to", "share"}, {}},
      pairs{"Distances of heads", {"run", "head", "other head", "distance", "distance of |a|"}, {}};
  const auto add_histogram = [&](const std::string& name, std::int64_t layer, const std::vector<double>& shares) {
    const auto edge = [&](std::size_t bin) {
      return study_number(-1 + 2 * static_cast<double>(bin) / static_cast<double>(bins));
    };
    for (std::size_t bin = 0; bin < shares.size(); ++bin)
      histogram.rows.push_back({name, head_layer_name(layer), edge(bin), edge(bin + 1), study_number(shares[bin])});
  };
  const auto add_pairs = [&](const std::string& name, std::int64_t layer, const at::Tensor& distance,
                             const at::Tensor& of_magnitudes) {
    for (std::int64_t head = 0; head < distance.size(0); ++head)
      for (std::int64_t other = head + 1; other < distance.size(1); ++other)
        pairs.rows.push_back({name, head_name(layer, head), head_name(layer, other),
                              study_number(distance[head][other].item<double>()),
                              study_number(of_magnitudes[head][other].item<double>())});
  };
  // Each run's maps on the text, layer by layer.
  std::vector<std::vector<double>> distances, distances_of_magnitudes;
  std::vector<std::vector<std::vector<double>>> histograms;  // [runs][layers][bins]
  for (const StudiedRun& each : runs) {
    distances.emplace_back();
    distances_of_magnitudes.emplace_back();
    histograms.emplace_back();
    for (const auto& [layer, maps] : maps_of(each, parameters.whole("tokens"))) {
      const at::Tensor distance = head_distances(maps), of_magnitudes = head_distances(maps.abs());
      distances.back().push_back(mean_head_distance(distance).item<double>());
      distances_of_magnitudes.back().push_back(mean_head_distance(of_magnitudes).item<double>());
      histograms.back().push_back(shares_of_weights(maps, bins));
      add_histogram(each.name, layer, histograms.back().back());
      add_pairs(each.name, layer, distance, of_magnitudes);
    }
  }

  TextTable at_the_end{"At the end of training, mean over the heads of a layer and its runs",
                       {"runs", "layer", "kurtosis", "entropy / log n", "sink", "positive share", "one sign",
                        "head distance", "of |a|", "‖E[v]‖ / rms", "E‖o‖"},
                       {}};
  TextTable lambdas{"λ of each layer at the end", {"runs", "layer", "λ₁", "λ₂", "λ init", "λ"}, {}};
  for (const RunGroup& group : groups) {
    const StudiedRun& first = runs[group.runs.front()];
    const auto estimate = [&](Member member, std::int64_t layer) {
      std::vector<double> values(runs.size(), HeadStatistics::none);
      for (const std::size_t each : group.runs)
        values[each] = mean_over_heads(runs[each].history.back().heads, member, layer);
      return estimate_text(mean_of_group(group, values));
    };
    const auto estimate_of_text = [&](const std::vector<std::vector<double>>& of_layers, std::int64_t layer) {
      std::vector<double> values(runs.size(), HeadStatistics::none);
      for (const std::size_t each : group.runs)
        if (layer < std::ssize(of_layers[each])) values[each] = of_layers[each][static_cast<std::size_t>(layer)];
      return estimate_text(mean_of_group(group, values));
    };
    const auto layers = std::ssize(first.history.back().heads);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      at_the_end.rows.push_back(
          {group.name, head_layer_name(layer), estimate(&HeadStatistics::kurtosis, layer),
           estimate(&HeadStatistics::normalized_entropy, layer), estimate(&HeadStatistics::sink, layer),
           estimate(&HeadStatistics::positive_share, layer), estimate(&HeadStatistics::sign_consistency, layer),
           estimate_of_text(distances, layer), estimate_of_text(distances_of_magnitudes, layer),
           estimate(&HeadStatistics::value_bias, layer), estimate(&HeadStatistics::output_norm, layer)});
      if (const std::string full = estimate(&HeadStatistics::lambda_full, layer); !full.empty())
        lambdas.rows.push_back({group.name, head_layer_name(layer), estimate(&HeadStatistics::lambda_1, layer),
                                estimate(&HeadStatistics::lambda_2, layer),
                                estimate(&HeadStatistics::lambda_init, layer), full});
    }
    LineChart chart{.title = group.title + ": how often which weight",
                    .x = {.title = "weight", .min = -1., .max = 1.},
                    .y = {.title = "share of the weights", .logarithmic = true},
                    .series = {},
                    .caption = "Of the text, mean over heads and runs."};
    for (std::size_t layer = 0; layer < histograms[group.runs.front()].size(); ++layer) {
      ChartSeries series{.name = head_layer_name(static_cast<std::int64_t>(layer)), .x = {}, .y = {}, .points = false};
      for (std::int64_t bin = 0; bin < bins; ++bin) {
        double sum = 0;
        for (const std::size_t each : group.runs) sum += histograms[each][layer][static_cast<std::size_t>(bin)];
        series.x.push_back(-1 + 2 * (static_cast<double>(bin) + 0.5) / static_cast<double>(bins));
        series.y.push_back(sum / static_cast<double>(group.runs.size()));
      }
      chart.series.push_back(std::move(series));
    }
    result.charts.push_back(std::move(chart));
  }

  std::vector<LineChart> curves;
  for (const Charted& each : charted) {
    LineChart chart{.title = each.title,
                    .x = {.title = "step"},
                    .y = {.title = each.title},
                    .series = {},
                    .caption = std::string(each.meaning) + " Mean over heads; bars: intervals of 95 % over runs."};
    for (const RunGroup& group : groups) {
      std::vector<double> steps;
      for (const StepReport& report : runs[group.runs.front()].history)
        steps.push_back(static_cast<double>(report.step));
      std::vector<std::vector<double>> values(runs.size());
      for (const std::size_t member : group.runs)
        for (const double step : steps) {
          const auto& history = runs[member].history;
          const auto found = std::ranges::find(history, static_cast<std::int64_t>(step), &StepReport::step);
          values[member].push_back(
              found == history.end()
                  ? HeadStatistics::none
                  : mean_over_heads(found->heads, each.member, each.last_layer ? std::ssize(found->heads) - 1 : -1));
        }
      chart.series.push_back(group_series(group, steps, values));
    }
    curves.push_back(std::move(chart));
  }
  result.charts.insert(result.charts.begin(), curves.begin(), curves.end());
  const auto told_at_end = [&](Member member) {
    std::vector<Told> each;
    for (const RunGroup& group : groups) {
      std::vector<double> values(runs.size(), HeadStatistics::none);
      for (const std::size_t run : group.runs) values[run] = mean_over_heads(runs[run].history.back().heads, member);
      const double mean = mean_of_group(group, values).mean;
      each.push_back({group.said, mean, fmt::format("{:.3g}", mean)});
    }
    const std::string text = told(each);
    return text.empty() ? std::string("not measured") : text;
  };
  result.answer =
      fmt::format("At the end of training the kurtosis of weights is {}, and their entropy over log n is {}.",
                  told_at_end(&HeadStatistics::kurtosis), told_at_end(&HeadStatistics::normalized_entropy));
  result.tables = {{"layers", at_the_end}};
  if (!lambdas.rows.empty()) result.tables.push_back({"lambdas", lambdas});
  result.tables.insert(
      result.tables.end(),
      {{"histogram", histogram, false}, {"distances", pairs, false}, {"over_training", over_training, false}});
  result.remarks = {
      {"Queries that see one key are left out,",
       "whose weight is 1 or −1 whatever the head does, and of kurtosis those that see fewer than 8."},
      {"Entries of v that are 0 on average do not make E[v] ≈ 0:", "‖E[v]‖ over rms v tells, the mean entry does not."},
      {"Kurtosis grows with the number of keys:",
       "a single key of n gives n − 2 + 1/(n − 1). Compare runs of one context."},
      {"Where softmax layers stand outside,", "compare them with layers of their own kind."},
      {"λ init:",
       "0.8 − 0.6 exp(−0.3 l) with l from 0, or from 1 where model.first_lambda_depth = 1: as in the paper of "
       "differential attention (Ye et al. 2024), or as in notes that count layers from 1."},
      {"Head distance",
       "is the mean over pairs of heads and queries of ½ Σ|a − a′| on the text: 0 for equal maps, at most 1 where Σ|a| "
       "= 1. Signs count: one pattern with signs that have nothing to do with each other is 0.5 apart. That of |a| "
       "leaves them out, and tells whether heads look at different places."}};
  return result;
}

}  // namespace heads

StudyEntry heads_study() {
  return {.name = "heads",
          .title = "What heads become",
          .question = "How do heads change while they learn: how peaked, how negative, how different from each other?",
          .parameters =
              {{{"tokens", {128}, {8, 1024}, "of the text of the maps, as far as it goes and the context holds them"},
                {"bins", {41}, {3, 401}, "of the histograms of weights"}}},
          .run = heads::run,
          .reads_text = true};
}

}  // namespace cogwheel
