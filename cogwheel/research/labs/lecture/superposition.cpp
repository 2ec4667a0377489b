// A state that is a sum of items: how well one item is read from it. v₁·S = v₁·v₁ + Σ_{i>1} v₁·v_i: the signal
// is 1, and the crosstalk of random directions has the standard deviation √((L − 1)/d).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/research/labs/draws.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/sums.h"

namespace cogwheel::labs::superposition {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {256}, {2, 4096}, "d, numbers of the state"},
           {"lengths", {2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, {2, 8192}, "L, items in the sum", whole, true},
           {"draws", {400}, {2, 100000}, "independent sets of as many items as the longest sum has"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

// For each length, the sum of the squares of the crosstalk and how many there are. Of the items of a draw each group of
// L makes a sum, from which each of its items is read.
struct Crosstalk {
  std::vector<double> squares, count;
};

Crosstalk draw_items(std::int64_t width, const std::vector<std::int64_t>& lengths, Draws draws) {
  const std::int64_t most = *std::max_element(lengths.begin(), lengths.end());
  std::vector<double> items(static_cast<std::size_t>(most * width)), sum(static_cast<std::size_t>(width));
  for (std::int64_t item = 0; item < most; ++item)
    draws.unit_vector(&items[static_cast<std::size_t>(item * width)], width);
  Crosstalk crosstalk;
  for (const std::int64_t length : lengths) {
    double squares = 0, count = 0;
    for (std::int64_t first = 0; first + length <= most; first += length) {
      std::fill(sum.begin(), sum.end(), 0);
      const double* const group = &items[static_cast<std::size_t>(first * width)];
      for (std::int64_t item = 0; item < length; ++item)
        for (std::int64_t i = 0; i < width; ++i) sum[static_cast<std::size_t>(i)] += group[item * width + i];
      for (std::int64_t item = 0; item < length; ++item) {
        const double noise = dot(group + item * width, sum.data(), width) - 1;
        squares += noise * noise, count += 1;
      }
    }
    crosstalk.squares.push_back(squares), crosstalk.count.push_back(count);
  }
  return crosstalk;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::int64_t width = given.whole("width");
  std::vector<std::int64_t> lengths = given.wholes("lengths");
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<Crosstalk> draws(static_cast<std::size_t>(given.whole("draws")));
  host.executor.run(std::ssize(draws), [&](std::int64_t index, int) {
    const auto number = static_cast<std::uint64_t>(index);
    draws[number] = draw_items(width, lengths, Draws(static_cast<std::uint64_t>(given.whole("seed")), number));
  });

  std::vector<double> noise, formula, log_length, log_ratio;
  double worst = 0, worst_length = 0;
  pages::TextTable table{"Crosstalk beside a signal of 1",
                         {"L", "noise, measured", "√((L − 1)/d)", "one over the other", "signal over noise"},
                         {}};
  for (std::size_t index = 0; index < lengths.size(); ++index) {
    double squares = 0, count = 0;
    for (const Crosstalk& draw : draws) squares += draw.squares[index], count += draw.count[index];
    const auto length = static_cast<double>(lengths[index]);
    noise.push_back(std::sqrt(squares / count));
    formula.push_back(std::sqrt((length - 1) / static_cast<double>(width)));
    const double off = noise.back() / formula.back() - 1;
    if (std::abs(off) > std::abs(worst)) worst = off, worst_length = length;
    if (length >= 16) log_length.push_back(std::log(length)), log_ratio.push_back(-std::log(noise.back()));
    table.rows.push_back({number_for_readers(length), fmt::format("{:.4f}", noise.back()),
                          fmt::format("{:.4f}", formula.back()), fmt::format("{:.4f}", noise.back() / formula.back()),
                          fmt::format("{:.3f}", 1 / noise.back())});
  }
  // Where the noise passes the signal, on the straight line between logarithms.
  std::optional<double> crossing;
  for (std::size_t index = 1; index < lengths.size() && !crossing; ++index)
    if (noise[index - 1] < 1 && noise[index] >= 1) {
      const double before = std::log(noise[index - 1]), after = std::log(noise[index]);
      const double share = before / (before - after);
      const double low = std::log(static_cast<double>(lengths[index - 1])),
                   high = std::log(static_cast<double>(lengths[index]));
      crossing = std::exp(low + share * (high - low));
    }

  const std::vector<double> x(lengths.begin(), lengths.end());
  LabResult result{
      .answer = fmt::format("The noise in reading one of L items from their sum is √((L − 1)/d), within {:.1f} % at "
                            "every L. It grows with √L",
                            100 * std::abs(worst)),
      .findings = {{fmt::format("Noise over √((L − 1)/d), at its farthest (L = {})", number_for_readers(worst_length)),
                    follows, near, 1, 0.02, 1 + worst}},
      .charts = {{.title = "Noise in reading one item of L",
                  .x = {.title = "L, items in the sum", .logarithmic = true},
                  .y = {.title = "standard deviation of the crosstalk", .logarithmic = true},
                  .series = {{.name = "measured", .x = x, .y = noise, .line = false},
                             {.name = "√((L − 1)/d)", .x = x, .y = formula, .points = false, .expected = true}},
                  .marks = {{pages::ChartMark::Axis::y, 1, "the signal"},
                            {pages::ChartMark::Axis::x, static_cast<double>(width), "L = d"}}}},
      .tables = {table},
      .assumptions = {{"Items are random directions.",
                       "Independent of each other and equally long. Items that a network has learned may lie better, "
                       "and those of related words worse."},
                      {"Items are weighted equally.",
                       "The state is their plain sum. With a decay the recent items are louder, and L is then the "
                       "number of those that still count."},
                      {"Noise and signal are compared by size.",
                       "At L ≈ d the standard deviation of the noise is the signal. To find which of many items is in "
                       "the sum, the noise must be well below it, so fewer fit."}}};
  if (log_length.size() >= 2)
    result.findings.push_back({"Slope of log (signal/noise) on log L, from L = 16 on", follows, near, -0.5, 0.02,
                               fit_line(log_length, log_ratio).slope});
  if (crossing) {
    result.findings.push_back({"Length at which the noise is as large as the signal, over d", follows, near, 1, 0.05,
                               *crossing / static_cast<double>(width)});
    result.answer += fmt::format(" and is as large as the signal at L = {:.0f}, with d = {}", *crossing, width);
  }
  result.answer += ".";
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::superposition

namespace cogwheel::labs {
LabEntry superposition_lab() {
  return {"superposition", "Reading one item of a sum",
          "When does the noise of L items in one state exceed the signal of one?", superposition::parameters(),
          superposition::run};
}
}  // namespace cogwheel::labs
