// What heads become in training: how peaked, how negative, how different from each other. The
// numbers over training are those of metrics.jsonl, which the run measured itself.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/head_distance.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace heads {

using Member = double nn::HeadStatistics::*;

// Over heads, those that have none left out; a layer of −1 is all.
double mean_over_heads(const nn::StatisticsOfHeads& layers, Member member, std::int64_t layer = -1) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t at = 0; at < layers.size(); ++at)
    for (const nn::HeadStatistics& head : layers[at])
      if ((layer < 0 || layer == static_cast<std::int64_t>(at)) && std::isfinite(head.*member))
        sum += head.*member, ++count;
  return count == 0 ? nn::HeadStatistics::none : sum / static_cast<double>(count);
}

// Weights of a text by layer, [heads, N, N].
std::map<std::int64_t, at::Tensor> maps_of(const StudiedRun& run, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  std::map<std::int64_t, at::Tensor> maps;
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::pattern, [&](const nn::HookPoint& at, const at::Tensor& value) {
    if (value.dim() == 4) maps[at.layer] = value[0].to(at::kDouble);
  });
  (*run.model)->forward(token_row(run, tokens), {.hooks = &hooks});
  return maps;
}

// Shares of the weights of queries that see two keys or more, in equal bins of [−1, 1].
std::vector<double> shares_of_weights(const at::Tensor& maps, std::int64_t bins) {
  const std::int64_t tokens = maps.size(-1);
  const at::Tensor visible = at::ones({tokens, tokens}, maps.options().dtype(at::kBool)).tril();
  visible[0].fill_(false);
  const at::Tensor weights = maps.masked_select(visible).clamp(-1, 1);
  const at::Tensor counts = at::histc(weights, bins, -1, 1).cpu() / static_cast<double>(weights.numel());
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
    {&nn::HeadStatistics::kurtosis, "Kurtosis of weights",
     "Of a query's weights over the keys it sees: high where a few have most."},
    {&nn::HeadStatistics::normalized_entropy, "Entropy over log n", "1 for equal magnitudes, 0 for a single key."},
    {&nn::HeadStatistics::sink, "Weight on the first token", "Mean magnitude: a sink."},
    {&nn::HeadStatistics::positive_share, "Share of positive weights", "Of the keys that a query sees."},
    {&nn::HeadStatistics::sign_consistency, "One sign, last layer", "1 where all weights of a head have the same sign.",
     true},
    {&nn::HeadStatistics::value_bias, "‖E[v]‖ over rms v", "0 where values are centred."},
    {&nn::HeadStatistics::output_norm, "E‖o‖", "Norm of a head's output."},
};

pages::TextTable table_over_training(const std::vector<StudiedRun>& runs) {
  pages::TextTable table{"Over training", {"run", "step", "layer", "head", "statistic", "value"}, {}};
  for (const StudiedRun& each : runs)
    for (const runs::StepReport& report : each.history)
      for (std::size_t layer = 0; layer < report.heads.size(); ++layer)
        for (std::size_t head = 0; head < report.heads[layer].size(); ++head)
          for (const nn::HeadStatistic& statistic : nn::head_statistics)
            if (const double value = report.heads[layer][head].*statistic.member; std::isfinite(value))
              table.rows.push_back({each.name, std::to_string(report.step), std::to_string(layer), std::to_string(head),
                                    std::string(statistic.name), study_number(value)});
  return table;
}

// Where a bin of [−1, 1] begins; with half a bin more, its middle.
double bin_edge(double bin, std::int64_t bins) { return -1 + 2 * bin / static_cast<double>(bins); }

// What the maps of a text say: of each run, by layer.
struct TextMaps {
  std::vector<std::vector<double>> distances = {}, distances_of_magnitudes = {};
  std::vector<std::vector<std::vector<double>>> histograms = {};  // [runs][layers][bins]
  pages::TextTable histogram{"Weights of the text", {"run", "layer", "from", "to", "share"}, {}};
  pages::TextTable pairs{"Distances of heads", {"run", "head", "other head", "distance", "distance of |a|"}, {}};
};

void add_histogram(TextMaps& found, const std::string& run, std::int64_t layer, const std::vector<double>& shares) {
  const std::int64_t bins = std::ssize(shares);
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const auto from = static_cast<double>(bin);
    found.histogram.rows.push_back({run, head_layer_name(layer), study_number(bin_edge(from, bins)),
                                    study_number(bin_edge(from + 1, bins)),
                                    study_number(shares[static_cast<std::size_t>(bin)])});
  }
  found.histograms.back().push_back(shares);
}

void add_distances(TextMaps& found, const std::string& run, std::int64_t layer, const at::Tensor& maps) {
  const at::Tensor distance = interpret::head_distances(maps), of_magnitudes = interpret::head_distances(maps.abs());
  found.distances.back().push_back(interpret::mean_head_distance(distance).item<double>());
  found.distances_of_magnitudes.back().push_back(interpret::mean_head_distance(of_magnitudes).item<double>());
  for (std::int64_t head = 0; head < distance.size(0); ++head)
    for (std::int64_t other = head + 1; other < distance.size(1); ++other)
      found.pairs.rows.push_back({run, head_name(layer, head), head_name(layer, other),
                                  study_number(distance[head][other].item<double>()),
                                  study_number(of_magnitudes[head][other].item<double>())});
}

TextMaps text_maps(const std::vector<StudiedRun>& runs, std::int64_t tokens, std::int64_t bins) {
  TextMaps found;
  for (const StudiedRun& each : runs) {
    found.distances.emplace_back();
    found.distances_of_magnitudes.emplace_back();
    found.histograms.emplace_back();
    for (const auto& [layer, maps] : maps_of(each, tokens)) {
      add_histogram(found, each.name, layer, shares_of_weights(maps, bins));
      add_distances(found, each.name, layer, maps);
    }
  }
  return found;
}

// Of a number of each run.
template <class Number>
compare::Estimate mean_over_runs(const RunGroup& group, std::size_t runs, const Number& number) {
  std::vector<double> values(runs, nn::HeadStatistics::none);
  for (const std::size_t each : group.runs) values[each] = number(each);
  return mean_of_group(group, values);
}

compare::Estimate mean_at_end(const RunGroup& group, const std::vector<StudiedRun>& runs, Member member,
                              std::int64_t layer = -1) {
  return mean_over_runs(group, runs.size(), [&](std::size_t each) {
    return mean_over_heads(runs[each].history.back().heads, member, layer);
  });
}

// How heads end, and the λ of those that have one.
std::vector<StudyTable> tables_at_end(const std::vector<RunGroup>& groups, const std::vector<StudiedRun>& runs,
                                      const TextMaps& maps) {
  pages::TextTable at_the_end{"At the end of training, mean over the heads of a layer and its runs",
                              {"runs", "layer", "kurtosis", "entropy / log n", "sink", "positive share", "one sign",
                               "head distance", "of |a|", "‖E[v]‖ / rms", "E‖o‖"},
                              {}};
  pages::TextTable lambdas{"λ of each layer at the end", {"runs", "layer", "λ₁", "λ₂", "λ init", "λ"}, {}};
  for (const RunGroup& group : groups) {
    const auto layers = std::ssize(runs[group.runs.front()].history.back().heads);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto estimate = [&](Member member) { return estimate_text(mean_at_end(group, runs, member, layer)); };
      const auto of_text = [&](const std::vector<std::vector<double>>& of_layers) {
        return estimate_text(mean_over_runs(group, runs.size(), [&](std::size_t each) {
          const bool has = layer < std::ssize(of_layers[each]);
          return has ? of_layers[each][static_cast<std::size_t>(layer)] : nn::HeadStatistics::none;
        }));
      };
      at_the_end.rows.push_back({group.name, head_layer_name(layer), estimate(&nn::HeadStatistics::kurtosis),
                                 estimate(&nn::HeadStatistics::normalized_entropy), estimate(&nn::HeadStatistics::sink),
                                 estimate(&nn::HeadStatistics::positive_share),
                                 estimate(&nn::HeadStatistics::sign_consistency), of_text(maps.distances),
                                 of_text(maps.distances_of_magnitudes), estimate(&nn::HeadStatistics::value_bias),
                                 estimate(&nn::HeadStatistics::output_norm)});
      if (const std::string full = estimate(&nn::HeadStatistics::lambda_full); !full.empty())
        lambdas.rows.push_back({group.name, head_layer_name(layer), estimate(&nn::HeadStatistics::lambda_1),
                                estimate(&nn::HeadStatistics::lambda_2), estimate(&nn::HeadStatistics::lambda_init),
                                full});
    }
  }
  std::vector<StudyTable> tables{{"layers", std::move(at_the_end)}};
  if (!lambdas.rows.empty()) tables.push_back({"lambdas", std::move(lambdas)});
  return tables;
}

pages::LineChart chart_of_weights(const RunGroup& group, const TextMaps& maps, std::int64_t bins) {
  pages::LineChart chart{.title = group.title + ": how often which weight",
                         .x = {.title = "weight", .min = -1., .max = 1.},
                         .y = {.title = "share of the weights", .logarithmic = true},
                         .series = {},
                         .caption = "Of the text, mean over heads and runs."};
  for (std::size_t layer = 0; layer < maps.histograms[group.runs.front()].size(); ++layer) {
    pages::ChartSeries series{
        .name = head_layer_name(static_cast<std::int64_t>(layer)), .x = {}, .y = {}, .points = false};
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      double sum = 0;
      for (const std::size_t each : group.runs) sum += maps.histograms[each][layer][static_cast<std::size_t>(bin)];
      series.x.push_back(bin_edge(static_cast<double>(bin) + 0.5, bins));
      series.y.push_back(sum / static_cast<double>(group.runs.size()));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

pages::LineChart chart_over_training(const Charted& each, const std::vector<RunGroup>& groups,
                                     const std::vector<StudiedRun>& runs) {
  pages::LineChart chart{.title = each.title,
                         .x = {.title = "step"},
                         .y = {.title = each.title},
                         .series = {},
                         .caption = std::string(each.meaning) + " Mean over heads; bars: intervals of 95 % over runs."};
  const auto value_at = [&](const StudiedRun& run, std::int64_t step) {
    const auto found = std::ranges::find(run.history, step, &runs::StepReport::step);
    if (found == run.history.end()) return nn::HeadStatistics::none;
    return mean_over_heads(found->heads, each.member, each.last_layer ? std::ssize(found->heads) - 1 : -1);
  };
  for (const RunGroup& group : groups) {
    std::vector<double> steps;
    std::vector<std::vector<double>> values(runs.size());
    for (const runs::StepReport& report : runs[group.runs.front()].history) {
      steps.push_back(static_cast<double>(report.step));
      for (const std::size_t member : group.runs) values[member].push_back(value_at(runs[member], report.step));
    }
    chart.series.push_back(group_series(group, steps, values));
  }
  return chart;
}

std::string told_at_end(const std::vector<RunGroup>& groups, const std::vector<StudiedRun>& runs, Member member) {
  std::vector<pages::Told> each;
  for (const RunGroup& group : groups) {
    const double mean = mean_at_end(group, runs, member).mean;
    each.push_back({group.said, mean, fmt::format("{:.3g}", mean)});
  }
  const std::string text = pages::told(each);
  return text.empty() ? "not measured" : text;
}

constexpr const char *of_layer = "_of_layer", *change_of = "_change", *rise_of = "_rise";

std::vector<StudyNumber> numbers() {
  std::vector<StudyNumber> all;
  const auto add = [&](const std::string& name, const std::string& meaning) {
    all.push_back({name, meaning + ", mean over heads"});
    all.push_back(
        {name + of_layer, meaning + ", mean over the heads of a layer", "layer, from 0 or backwards from -1"});
  };
  for (const nn::HeadStatistic& statistic : nn::head_statistics) {
    const std::string name(statistic.name);
    add(name, name + " at the end");
    all.push_back({name + change_of, name + " at the end less what it was when first measured"});
    all.push_back({name + rise_of, name + " of the last layer less that of the first, at the end"});
  }
  add("distance", "distance of heads");
  add("magnitude_distance", "distance of the |a| of heads");
  return all;
}

std::vector<NumbersOfRuns> numbers_of(const std::vector<StudiedRun>& runs, const TextMaps& maps) {
  std::vector<NumbersOfRuns> all;
  std::int64_t most_layers = 0;
  for (const StudiedRun& run : runs)
    most_layers = std::max<std::int64_t>(most_layers, std::ssize(run.history.back().heads));
  const auto add = [&](const std::string& name, std::optional<double> place, const auto& of_run) {
    NumbersOfRuns found{.name = name, .place = place, .values = {}};
    for (std::size_t run = 0; run < runs.size(); ++run) found.values.push_back(of_run(run));
    all.push_back(std::move(found));
  };
  // From the first on, and backwards from the last; of runs with fewer layers those that they have.
  const auto add_layers = [&](const std::string& name, const auto& layers_of, const auto& of_run) {
    for (std::int64_t layer = -most_layers; layer < most_layers; ++layer)
      add(name + of_layer, static_cast<double>(layer), [&](std::size_t run) {
        const std::int64_t layers = layers_of(run), own = layer < 0 ? layers + layer : layer;
        return own < 0 || own >= layers ? nn::HeadStatistics::none : of_run(run, own);
      });
  };
  for (const nn::HeadStatistic& statistic : nn::head_statistics) {
    const std::string name(statistic.name);
    const auto end = [&](std::size_t run, std::int64_t layer) {
      return mean_over_heads(runs[run].history.back().heads, statistic.member, layer);
    };
    add(name, {}, [&](std::size_t run) { return end(run, -1); });
    add(name + change_of, {}, [&](std::size_t run) {
      return end(run, -1) - mean_over_heads(runs[run].history.front().heads, statistic.member);
    });
    add(name + rise_of, {},
        [&](std::size_t run) { return end(run, std::ssize(runs[run].history.back().heads) - 1) - end(run, 0); });
    add_layers(
        name, [&](std::size_t run) { return std::ssize(runs[run].history.back().heads); }, end);
  }
  for (const auto& [name, distances] :
       {std::pair<std::string, const std::vector<std::vector<double>>&>{"distance", maps.distances},
        {"magnitude_distance", maps.distances_of_magnitudes}}) {
    add(name, {}, [&](std::size_t run) {
      const std::vector<double>& layers = distances[run];
      return std::accumulate(layers.begin(), layers.end(), 0.) / static_cast<double>(layers.size());
    });
    add_layers(
        name, [&](std::size_t run) { return std::ssize(distances[run]); },
        [&](std::size_t run, std::int64_t layer) { return distances[run][static_cast<std::size_t>(layer)]; });
  }
  return all;
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  for (const StudiedRun& each : runs) expect_history(each);
  const std::vector<RunGroup> groups = groups_of(runs);
  const std::int64_t bins = parameters.whole("bins");
  const TextMaps maps = text_maps(runs, parameters.whole("tokens"), bins);
  StudyResult result;
  result.answer =
      fmt::format("At the end of training the kurtosis of weights is {}, and their entropy over log n is {}.",
                  told_at_end(groups, runs, &nn::HeadStatistics::kurtosis),
                  told_at_end(groups, runs, &nn::HeadStatistics::normalized_entropy));
  result.tables = tables_at_end(groups, runs, maps);
  result.tables.insert(result.tables.end(), {{"histogram", maps.histogram, false},
                                             {"distances", maps.pairs, false},
                                             {"over_training", table_over_training(runs), false}});
  result.numbers = numbers_of(runs, maps);
  for (const Charted& each : charted) result.charts.push_back(chart_over_training(each, groups, runs));
  for (const RunGroup& group : groups) result.charts.push_back(chart_of_weights(group, maps, bins));
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
          .reads_text = true,
          .numbers = heads::numbers()};
}

}  // namespace cogwheel::inspect
