// What attention to all of L positions adds to the one that is meant, beside attention to a window of D:
// c = α* h* + Σ_{u≠*} α_u h_u, with random directions h_u. The lecture concludes SNR ∝ 1/√L and 1/√D.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/research/labs/draws.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/sums.h"

namespace cogwheel::labs::local_noise {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {
      {{"width", {256}, {8, 16384}, "d, numbers of a state"},
       {"lengths", {32, 64, 128, 256, 512, 1024, 2048, 4096}, {2, 1 << 16}, "L, positions of the source", whole, true},
       {"window", {16}, {2, 1 << 16}, "D, positions of a window that holds the right one"},
       {"gap", {6}, {0, 100}, "how far the score of the right position is above all others, under softmax", real},
       {"draws", {40}, {1, 100000}, "random sources of each length"},
       {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

enum Kind { global_equal, local_equal, global_softmax, local_softmax, kinds };
constexpr std::array<const char*, kinds> names{"all L, equal weights", "window, equal weights", "all L, softmax",
                                               "window, softmax"};

struct Sizes {
  double signal = 0, noise = 0;
};

// Weights: 1 for each position before they are divided by their sum, and e^gap for the right one.
Sizes sizes_of(const std::vector<double>& sum_of_others, double others, double right) {
  const double total = right + others;
  return {right / total, std::sqrt(dot(sum_of_others.data(), sum_of_others.data(), std::ssize(sum_of_others))) / total};
}

std::array<Sizes, kinds> draw_source(std::int64_t width, std::int64_t length, std::int64_t window, double gap,
                                     Draws draws) {
  std::vector<double> state(static_cast<std::size_t>(width)), near(state.size()), all(state.size());
  // The right position has unit length, so its own direction does not matter; those of its window come first.
  for (std::int64_t other = 1; other < length; ++other) {
    draws.unit_vector(state.data(), width);
    for (std::size_t i = 0; i < state.size(); ++i) all[i] += state[i];
    if (other + 1 == std::min(window, length)) near = all;
  }
  const auto others = static_cast<double>(length - 1), seen = static_cast<double>(std::min(window, length) - 1);
  std::array<Sizes, kinds> sizes;
  sizes[global_equal] = sizes_of(all, others, 1), sizes[local_equal] = sizes_of(near, seen, 1);
  sizes[global_softmax] = sizes_of(all, others, std::exp(gap)),
  sizes[local_softmax] = sizes_of(near, seen, std::exp(gap));
  return sizes;
}

std::vector<std::int64_t> lengths_of(const LabParameters& given) {
  std::vector<std::int64_t> lengths = given.wholes("lengths");
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

void check(const LabParameters& given) {
  const std::vector<std::int64_t> lengths = lengths_of(given);
  if (lengths.size() < 2 || lengths.front() <= given.whole("window"))
    throw UsageError(expected_got("lengths",
                                  "two at least, all above the window of " + number_text(given.whole("window")),
                                  number_text(std::ssize(lengths)) + " from " + number_text(lengths.front())));
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::vector<std::int64_t> lengths = lengths_of(given);
  const std::int64_t draws = given.whole("draws"), window = given.whole("window");
  const double gap = given.number("gap");
  std::vector<std::array<Sizes, kinds>> drawn(lengths.size() * static_cast<std::size_t>(draws));
  host.executor.run(std::ssize(drawn), [&](std::int64_t index, int) {
    const std::int64_t place = std::ssize(lengths) - 1 - index / draws,
                       length = lengths[static_cast<std::size_t>(place)];
    drawn[static_cast<std::size_t>(place * draws + index % draws)] =
        draw_source(given.whole("width"), length, window, gap,
                    Draws(static_cast<std::uint64_t>(given.whole("seed")),
                          static_cast<std::uint64_t>((length << 20) + index % draws)));
  });

  // The signal and the noise of a length: roots of means of squares.
  std::array<std::vector<double>, kinds> ratio, noise;
  pages::TextTable table{
      "Signal over noise", {"L", names[0], names[1], names[2], names[3], "noise: " + std::string(names[2])}, {}};
  for (std::size_t place = 0; place < lengths.size(); ++place) {
    std::vector<std::string> row{number_for_readers(static_cast<double>(lengths[place]))};
    for (int kind = 0; kind < kinds; ++kind) {
      double squares = 0, signal = 0;
      for (std::int64_t draw = 0; draw < draws; ++draw) {
        const Sizes& sizes = drawn[place * static_cast<std::size_t>(draws) + static_cast<std::size_t>(draw)]
                                  [static_cast<std::size_t>(kind)];
        squares += sizes.noise * sizes.noise / static_cast<double>(draws), signal = sizes.signal;
      }
      noise[static_cast<std::size_t>(kind)].push_back(std::sqrt(squares));
      ratio[static_cast<std::size_t>(kind)].push_back(signal / std::sqrt(squares));
      row.push_back(fmt::format("{:.3f}", signal / std::sqrt(squares)));
    }
    row.push_back(fmt::format("{:.4f}", noise[global_softmax].back()));
    table.rows.push_back(std::move(row));
  }

  const std::vector<double> x(lengths.begin(), lengths.end());
  const auto logarithms = [](std::vector<double> values) {
    for (double& value : values) value = std::log(value);
    return values;
  };
  const auto slope = [&](const std::vector<double>& y) { return fit_line(logarithms(x), logarithms(y)).slope; };
  std::vector<double> formula;
  for (const double length : x) formula.push_back(1 / std::sqrt(length - 1));
  const double longest = x.back(), gain = ratio[local_equal].back() / ratio[global_equal].back();
  pages::LineChart snr{
      .title = "Signal over noise",
      .x = {.title = "L, positions of the source", .logarithmic = true},
      .y = {.title = "signal / noise", .logarithmic = true},
      .series = {},
      .caption = fmt::format("D = {}; under softmax the right score is {} above the others.", window, gap)};
  pages::LineChart size_of_noise{
      .title = "The noise itself",
      .x = {.title = "L, positions of the source", .logarithmic = true},
      .y = {.title = "length of the noise", .logarithmic = true},
      .series = {},
      .marks = {{pages::ChartMark::Axis::x, std::exp(gap), "L = e^gap"}},
      .caption =
          "Weights that are divided by their sum make the noise of all L smaller as L grows, "
          "once the others outweigh the right one; the signal falls faster."};
  for (int kind = 0; kind < kinds; ++kind) {
    const auto index = static_cast<std::size_t>(kind);
    snr.series.push_back({.name = names[index], .x = x, .y = ratio[index]});
    size_of_noise.series.push_back({.name = names[index], .x = x, .y = noise[index]});
  }
  snr.series.push_back({.name = "1/√(L − 1)", .x = x, .y = formula, .points = false, .expected = true});
  return {
      .answer = fmt::format("Signal over noise falls as L to the power {} where all L positions are attended to, and "
                            "does not depend on L in a window, under equal weights and under softmax alike, which "
                            "makes the ratio e^gap times as large at every L.",
                            pages::fixed(slope(ratio[global_equal]), 2)),
      .findings = {{"Slope of log SNR on log L, all L, equal weights", follows, near, -0.5, 0.02,
                    slope(ratio[global_equal])},
                   {"Slope of log SNR on log L, window, equal weights", follows, near, 0, 0.02,
                    slope(ratio[local_equal])},
                   {fmt::format("SNR of the window over that of all, L = {} (√((L − 1)/(D − 1)) = {})",
                                number_for_readers(longest),
                                number_for_readers(std::sqrt((longest - 1) / static_cast<double>(window - 1)))),
                    follows, near, std::sqrt((longest - 1) / static_cast<double>(window - 1)),
                    0.1 * std::sqrt((longest - 1) / static_cast<double>(window - 1)), gain},
                   {"Slope of log noise on log L, all L, softmax at a fixed gap", follows, near, 0.5, 0.02,
                    slope(noise[global_softmax]),
                    "The lecture's ‖noise‖ ∝ √L is of a sum with fixed weights, whose slope is that of SNR with the "
                    "other sign. Softmax divides by the total: the noise "
                    "is √(L − 1)/(e^gap + L − 1), which grows while L is well below e^gap and shrinks beyond. What "
                    "holds at every L is the ratio of signal to noise, e^gap/√(L − 1), and with it the conclusion."}},
      .charts = {snr, size_of_noise},
      .tables = {table},
      .assumptions = {{"States are random directions of equal length.",
                       "Those of neighbouring words resemble each other in a "
                       "network, which makes a window noisier than here."},
                      {"The window holds the right position.",
                       "Local attention is better only then; where it is placed "
                       "wrongly, nothing of the signal is left."},
                      {"All wrong positions have one score.",
                       "Softmax with a gap that grows as log L would keep its signal at any L: that attention to long "
                       "sources must sharpen is what the argument shows."}}};
}

}  // namespace
}  // namespace cogwheel::labs::local_noise

namespace cogwheel::labs {
LabEntry local_noise_lab() {
  return {"local-noise",
          "Noise of global and of local attention",
          "Does attention to a window keep the signal above the noise, where attention to everything loses it?",
          local_noise::parameters(),
          local_noise::run,
          local_noise::check};
}
}  // namespace cogwheel::labs
