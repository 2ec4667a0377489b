// Over-squashing: how much the last output still depends on each input, and what bounds that. Negative
// weights are said to lower the bound of Barbero's theorem B.5, so that later tokens are squashed less by earlier ones.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/interpret/over_squashing.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/collapse_prompts.h"
#include "cogwheel/research/inspect/correlation.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/text/text_tokens.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::inspect {
namespace {

enum SquashedInput : std::int64_t { zero_and_ones, english, drawn_tokens };

constexpr std::string_view english_text =
    "The old mill stands where the river turns south, a mile below the town. In spring the water comes up to the "
    "second step, and the miller moves his sacks to the loft. He has done so for thirty years, as his father did, and "
    "he tells every visitor that the wheel was built by a man who had never seen one. It turns all the same. In "
    "summer, when the river is low, children cross it on the stones and sit below the wheel to eat what they have "
    "brought. The miller pretends to be angry, and gives them apples. Once, a long time ago, the whole wheel was "
    "carried away by the ice, and the people of the town found it in the reeds near the bridge. They brought it back "
    "on a cart, with music, and it took eleven men to lift it. One of them was my grandfather, who could still show "
    "the mark that it left on his hand. ";

constexpr std::int64_t fewest_squashed = 8;  // so that there are quarters

struct SquashedText {
  std::vector<std::int64_t> tokens;
  std::optional<std::size_t> zero = {};  // where it stands
};

SquashedText squashed_text(const StudiedRun& run, std::int64_t input, std::size_t length, std::uint64_t seed) {
  SquashedText text;
  if (input == drawn_tokens) {
    NumberedDraws draws(seed, stream_named("squa"), 0);
    const auto vocabulary = static_cast<std::size_t>((*run.model)->options().vocabulary);
    for (std::size_t place = 0; place < length; ++place)
      text.tokens.push_back(static_cast<std::int64_t>(draws.below(vocabulary)));
    return text;
  }
  if (!run.tokenizer)
    throw UsageError(expected_got(run.name, "a run with a tokenizer of text, or --set input=2",
                                  "one of the task " + run.config.task.name));
  const auto encoded = [&](const std::string& words) {
    const std::string what = run.name + ": the text of input=" + std::to_string(input) + " (input=2 draws tokens)";
    std::vector<Token> tokens = run.tokenizer->encode(words, what);
    text::expect_known_words(*run.tokenizer, words, tokens, what);
    return tokens;
  };
  // Pieces of merged characters are fewer than characters: more of the text until there are enough.
  for (std::size_t size = length; text.tokens.size() < length; size *= 2) {
    std::string words;
    if (input == english)
      while (words.size() < size) words += english_text;
    else
      words = collapse_texts(collapse_tasks().front(), size).second;
    std::vector<Token> tokens = encoded(words);
    if (tokens.size() < length && size < (length << 12)) continue;
    tokens.resize(std::min(tokens.size(), length));
    text.tokens.assign(tokens.begin(), tokens.end());
    if (text.tokens.size() < length)
      throw UsageError(expected_got(run.name, fmt::format("a tokenizer that makes {} tokens of the text", length),
                                    fmt::format("{}", text.tokens.size())));
    if (input == zero_and_ones) {
      const std::vector<Token> ones = encoded(collapse_texts(collapse_tasks().front(), size).first);
      std::size_t place = 0;
      while (place < std::min(length, ones.size()) && ones[place] == tokens[place]) ++place;
      if (place < length) text.zero = place;
    }
  }
  return text;
}

struct SquashedRun {
  std::vector<double> path_product, path_magnitude, bound, frozen, full;  // of each token
};

std::vector<double> numbers_of(const at::Tensor& values) {
  const at::Tensor dense = values.to(at::kCPU, at::kDouble).contiguous();
  const auto* const first = dense.const_data_ptr<double>();
  return {first, first + dense.numel()};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Of early tokens to late ones: the first quarter but for token 0, which every query sees first, and the last quarter
// but for the last token, whose own stream is what is read. Medians, for the few tokens before the last outweigh all.
// NaN of signed numbers, whose medians may be near 0 or below.
double early_to_late(const std::vector<double>& values) {
  if (std::ranges::min(values) < 0) return std::numeric_limits<double>::quiet_NaN();
  const auto inner = static_cast<std::ptrdiff_t>(values.size()) - 2, quarter = std::max<std::ptrdiff_t>(inner / 4, 1);
  return median({values.begin() + 1, values.begin() + 1 + quarter}) /
         median({values.end() - 1 - quarter, values.end() - 1});
}

// r of logarithms between both ends, where both are above 0.
double agreement(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> x, y;
  for (std::size_t place = 1; place + 1 < one.size(); ++place)
    if (one[place] > 0 && other[place] > 0) x.push_back(std::log(one[place])), y.push_back(std::log(other[place]));
  return x.size() < 4 ? std::numeric_limits<double>::quiet_NaN() : correlation(x, y).value;
}

using OfPositions = std::vector<double> SquashedRun::*;

pages::LineChart chart_of_positions(const std::string& title, std::size_t length) {
  return {.title = title,
          .x = {.title = "position i", .min = 0, .max = static_cast<double>(length - 1)},
          .y = {.title = "norm", .logarithmic = true},
          .series = {},
          .caption = "Logarithmic: what is 0 or negative is left out. Means over the runs of a kind."};
}

pages::ChartSeries series_of_positions(const std::string& name, const RunGroup& group,
                                       const std::vector<SquashedRun>& found, OfPositions part) {
  std::vector<double> x;
  for (std::size_t place = 0; place < (found.front().*part).size(); ++place) x.push_back(static_cast<double>(place));
  std::vector<std::vector<double>> values;
  for (const SquashedRun& run : found) values.push_back(run.*part);
  pages::ChartSeries series = group_series(group, x, values, false);
  series.name = name;
  series.points = false;
  return series;
}

std::vector<SquashedRun> squashed_runs(const std::vector<StudiedRun>& runs, const std::vector<SquashedText>& texts) {
  std::vector<SquashedRun> found;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    tasks::language::LanguageModelImpl& model = **runs[run].model;
    model.to(at::kDouble);
    const interpret::OverSquashing squashed =
        interpret::over_squashing(model, torch::tensor(texts[run].tokens, at::kLong));
    found.push_back({numbers_of(squashed.path_product), numbers_of(squashed.path_magnitude), numbers_of(squashed.bound),
                     numbers_of(squashed.frozen), numbers_of(squashed.full)});
  }
  return found;
}

pages::TextTable table_of_positions(const std::vector<StudiedRun>& runs, const std::vector<SquashedText>& texts,
                                    const std::vector<SquashedRun>& found) {
  pages::TextTable table{"Every position",
                         {"run", "mechanism", "position", "token", "path product", "path product of |a|",
                          "strict bound", "norm with weights held fixed", "norm in full"},
                         {}};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const SquashedRun& own = found[run];
    for (std::size_t place = 0; place < own.bound.size(); ++place)
      table.rows.push_back({runs[run].name, (*runs[run].model)->options().mechanism, std::to_string(place),
                            std::to_string(texts[run].tokens[place]), study_number(own.path_product[place]),
                            study_number(own.path_magnitude[place]), study_number(own.bound[place]),
                            study_number(own.frozen[place]), study_number(own.full[place])});
  }
  return table;
}

std::vector<double> bound_to_norm(const SquashedRun& run) {
  std::vector<double> ratios;
  for (std::size_t place = 0; place < run.bound.size(); ++place) ratios.push_back(run.bound[place] / run.frozen[place]);
  return ratios;
}

template <class Number>
compare::Estimate mean_of_runs(const RunGroup& group, const std::vector<SquashedRun>& found, const Number& number) {
  std::vector<double> values;
  for (const SquashedRun& run : found) values.push_back(number(run));
  return mean_of_group(group, values);
}

// Of all runs of the group or of none.
std::optional<compare::Estimate> early_to_late(const RunGroup& group, const std::vector<SquashedRun>& found,
                                               OfPositions part) {
  for (const std::size_t run : group.runs)
    if (std::isnan(early_to_late(found[run].*part))) return std::nullopt;
  return mean_of_runs(group, found, [&](const SquashedRun& run) { return early_to_late(run.*part); });
}

pages::TextTable table_of_models(const std::vector<RunGroup>& groups, const std::vector<SquashedRun>& found) {
  pages::TextTable table{"Models",
                         {"model", "runs", "early to late: weights held fixed", "in full", "path product",
                          "path product of |a|", "strict bound", "path product below 0", "bound to norm: smallest",
                          "bound to norm: median", "r of path product", "r of strict bound"},
                         {}};
  for (const RunGroup& group : groups) {
    const auto of_runs = [&](auto&& number) { return estimate_text(mean_of_runs(group, found, number)); };
    const auto ratio = [&](OfPositions part) {
      const auto mean = early_to_late(group, found, part);
      return mean ? estimate_text(*mean) : "";
    };
    table.rows.push_back(
        {group.name, std::to_string(group.runs.size()), ratio(&SquashedRun::frozen), ratio(&SquashedRun::full),
         ratio(&SquashedRun::path_product), ratio(&SquashedRun::path_magnitude), ratio(&SquashedRun::bound),
         of_runs([](const SquashedRun& run) {
           return static_cast<double>(std::ranges::count_if(run.path_product, [](double value) { return value < 0; }));
         }),
         of_runs([](const SquashedRun& run) { return std::ranges::min(bound_to_norm(run)); }),
         of_runs([](const SquashedRun& run) { return median(bound_to_norm(run)); }),
         of_runs([](const SquashedRun& run) { return agreement(run.path_product, run.frozen); }),
         of_runs([](const SquashedRun& run) { return agreement(run.bound, run.frozen); })});
  }
  return table;
}

std::string answer_of(const std::vector<RunGroup>& groups, const std::vector<SquashedRun>& found) {
  std::vector<pages::Told> each;
  for (const RunGroup& group : groups) {
    const auto ratio = early_to_late(group, found, &SquashedRun::frozen);
    each.push_back({group.said, ratio ? ratio->mean : std::nan(""), ratio ? fmt::format("{:.2g}", ratio->mean) : ""});
  }
  const std::string ratios = pages::told(each);
  return ratios.empty() ? "How much early tokens move the last output cannot be compared with late ones."
                        : fmt::format(
                              "With weights held fixed, early tokens move the last output {} times as much as late "
                              "ones.",
                              ratios);
}

using NamedParts = std::initializer_list<std::pair<const char*, OfPositions>>;

// Of which claims can be made, from early to late.
constexpr std::pair<const char*, OfPositions> squashed_parts[] = {{"norm", &SquashedRun::frozen},
                                                                  {"norm_in_full", &SquashedRun::full},
                                                                  {"path_product", &SquashedRun::path_product},
                                                                  {"path_magnitude", &SquashedRun::path_magnitude},
                                                                  {"bound", &SquashedRun::bound}};

std::vector<pages::LineChart> charts_of(const std::vector<RunGroup>& groups, const std::vector<SquashedRun>& found,
                                        const std::optional<std::size_t>& zero) {
  std::vector<pages::LineChart> charts;
  const auto add = [&](const std::string& title) -> pages::LineChart& {
    charts.push_back(chart_of_positions(title, found.front().bound.size()));
    if (zero) charts.back().marks.push_back({pages::ChartMark::Axis::x, static_cast<double>(*zero), "the zero"});
    return charts.back();
  };
  for (const auto& [title, part] : NamedParts{{"Norm with weights held fixed", &SquashedRun::frozen},
                                              {"Norm in full", &SquashedRun::full},
                                              {"Path product, signed", &SquashedRun::path_product},
                                              {"Strict bound", &SquashedRun::bound}}) {
    pages::LineChart& chart = add(title);
    for (const RunGroup& group : groups) chart.series.push_back(series_of_positions(group.title, group, found, part));
  }
  for (const RunGroup& group : groups) {
    pages::LineChart& chart = add(group.name + ": bounds and what they bound");
    for (const auto& [name, part] : NamedParts{{"strict bound", &SquashedRun::bound},
                                               {"path product of |a|", &SquashedRun::path_magnitude},
                                               {"path product", &SquashedRun::path_product},
                                               {"norm, weights held fixed", &SquashedRun::frozen},
                                               {"norm in full", &SquashedRun::full}})
      chart.series.push_back(series_of_positions(name, group, found, part));
  }
  return charts;
}

StudyResult measure_squashing(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::int64_t asked = parameters.whole("tokens");
  std::int64_t length = asked;
  for (const StudiedRun& run : runs) length = std::min(length, (*run.model)->longest_text());
  if (length < fewest_squashed)
    throw UsageError(
        expected_got("squashing: context", fmt::format("{} tokens or more", fewest_squashed), std::to_string(length)));
  std::vector<SquashedText> texts;
  for (const StudiedRun& run : runs)
    texts.push_back(squashed_text(run, parameters.whole("input"), static_cast<std::size_t>(length),
                                  static_cast<std::uint64_t>(parameters.whole("seed"))));
  const std::vector<SquashedRun> found = squashed_runs(runs, texts);
  const std::vector<RunGroup> groups = groups_of(runs);

  StudyResult result;
  result.answer = answer_of(groups, found);
  result.tables = {{"models", table_of_models(groups, found)},
                   {"positions", table_of_positions(runs, texts, found), false}};
  result.charts = charts_of(groups, found, texts.front().zero);
  for (const auto& [name, part] : squashed_parts) {
    result.numbers.push_back({.name = name, .values = {}});
    for (const SquashedRun& run : found) result.numbers.back().values.push_back(early_to_late(run.*part));
  }
  NumbersOfRuns negative{.name = "negative_products", .values = {}}, least{.name = "bound_to_norm", .values = {}};
  for (const SquashedRun& run : found) {
    negative.values.push_back(
        static_cast<double>(std::ranges::count_if(run.path_product, [](double value) { return value < 0; })));
    least.values.push_back(std::ranges::min(bound_to_norm(run)));
  }
  result.numbers.insert(result.numbers.end(), {std::move(negative), std::move(least)});
  if (length < asked)
    result.notes.push_back(fmt::format("The shortest context holds {} tokens, not {}.", length, asked));
  result.remarks = {
      {"The theorem has one head, no W_V and constant weights.",
       "Its path product takes the mean over heads, values as they are read, and weights that do not depend on inputs. "
       "The strict bound takes |a| · ‖W_O W_V‖ of each head and is never below the norm with weights held fixed; the "
       "norm in full, which also moves the weights, may be above it."},
      {"A signed product can turn negative and bound nothing:",
       "with weights below 0 it is a heuristic of the paper of Cog attention, which no inequality supports: one for "
       "norms needs |a|."},
      {"Early to late", fmt::format("is the median of the first quarter of positions over that of the last, without "
                                    "the first and the last position; {} tokens.",
                                    length)},
      {"Query 0 sees only itself,",
       "so that much of every stream at position 0 is of that token alone, and what the last position is given at the "
       "embedding reaches its output by no attention at all."},
      {"r",
       "is that of logarithms, over positions, with the norm with weights held fixed; of the path product where it "
       "is above 0."},
      {"Hybrids:",
       "compare models with outer softmax layers with their own kind: those layers alone make patterns that "
       "look like softmax."},
      {"Norms are spectral,",
       "of ∂(output of the final norm at the last token) / ∂(residual stream before the first "
       "layer at position i), positions counted from 0, in float64."}};
  return result;
}

}  // namespace

StudyEntry squashing_study() {
  return {
      .name = "squashing",
      .title = "What early and late tokens move at the end of a text",
      .question = "How much does the last output depend on each position, and do the bounds of over-squashing say so?",
      .parameters =
          {{{"tokens", {128}, {fewest_squashed, 4096}, "of the text, or as many as the shortest context holds"},
            {"input",
             {0},
             {0, 2},
             "0: “Is there a zero …” with 0 and ones; 1: a text in English; 2: tokens that are drawn"},
            {"seed", {0}, {0, 1e9}, "of tokens that are drawn"}}},
      .run = measure_squashing,
      .numbers = {{"norm", "early to late: how much more early tokens move the last output, weights held fixed"},
                  {"norm_in_full", "the same with weights that move"},
                  {"path_product", "the same of the signed path product"},
                  {"path_magnitude", "the same of the path product of |a|"},
                  {"bound", "the same of the strict bound"},
                  {"negative_products", "positions at which the signed path product is below 0"},
                  {"bound_to_norm", "the strict bound over the norm, at the position where it is the least"}}};
}

}  // namespace cogwheel::inspect
