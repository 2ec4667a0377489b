#include "cogwheel/attention/authoring/card/weights_seen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/card/drawn_numbers.h"
#include "cogwheel/attention/authoring/definition.h"
#include "cogwheel/attention/authoring/numbers_as_text.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

class Range {
 public:
  void take(double value) { min_ = std::min(min_, value), max_ = std::max(max_, value); }
  std::string text() const {
    const std::string from = number_text(min_), to = number_text(max_);
    return from == to ? from : "[" + from + ", " + to + "]";
  }

 private:
  double min_ = std::numeric_limits<double>::infinity(), max_ = -min_;
};

using LongDouble = long double;

// f / N of each score by the formulas themselves. Where `rounds`, every step is rounded to float64.
std::vector<LongDouble> plain_weights(const MechanismDefinition& plain, const std::vector<LongDouble>& scores,
                                      bool rounds) {
  LongDouble mass = 0, at = 0;
  const auto value_of = [&](std::string_view name) -> LongDouble {
    for (const auto& [parameter, value] : plain.parameters)
      if (parameter == name) return value;
    return name == "s" ? at : name == "G" ? mass : static_cast<LongDouble>(scores.size());
  };
  const auto value = [&](const ExpressionPointer& formula) {
    return rounds ? evaluate_in_double(*formula, value_of) : evaluate(*formula, value_of);
  };
  for (const LongDouble s : scores) at = s, mass += value(plain.g);
  const LongDouble total = value(plain.n);
  std::vector<LongDouble> weights;
  for (const LongDouble s : scores) at = s, weights.push_back(value(plain.f) / total);
  return weights;
}

}  // namespace

void measure_weights(const MeasuredMap& map, NumericsCard& card) {
  Range weight, sum, size;
  int rows_of_numbers = 0;
  constexpr int rows = 64;
  for (int row = 0; row < rows; ++row) {
    const double scale = row % 3 == 0 || map.is_cosine() ? 1 : 10;
    const std::vector<double> weights =
        map.weights(drawn_scores(64, scale, map.is_cosine(), static_cast<std::uint64_t>(row)));
    if (!std::all_of(weights.begin(), weights.end(), [](double a) { return std::isfinite(a); })) continue;
    ++rows_of_numbers;
    double total = 0, absolute = 0, largest = 0;
    for (const double a : weights) {
      total += a;
      absolute += std::abs(a);
      largest = std::max(largest, std::abs(a));
    }
    // A value that is negligible in its row counts as 0.
    const auto take = [](Range& range, double value, double beside) {
      range.take(std::abs(value) < 1e-9 * beside ? 0 : value);
    };
    for (const double a : weights) take(weight, a, largest);
    take(sum, total, absolute);
    size.take(absolute);
  }
  if (rows_of_numbers == 0) {
    card.facts.emplace_back("weights seen", "no numbers");
    return;
  }
  const std::string rest =
      rows_of_numbers == rows ? "" : ", and no numbers in " + std::to_string(rows - rows_of_numbers) + " of 64 rows";
  card.facts.emplace_back("weights seen", weight.text() + rest);
  card.facts.emplace_back("row sums", "Σa " + sum.text() + ", Σ|a| " + size.text() + rest);
}

void check_formula(const MeasuredMap& map, std::string_view definition, NumericsCard& card) {
  if (definition.empty() || definition.find(" sha256:") != std::string_view::npos) return;
  const MechanismDefinition plain = parse_definition(definition);
  LongDouble worst = 0;  // relative to the largest weight of the row
  bool is_checked = false, agrees = true;
  for (const double scale : {0.1, 3.0, 30.0})
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const std::vector<double> scores = drawn_scores(32, scale, map.is_cosine(), seed), found = map.weights(scores);
      std::vector<LongDouble> exact(scores.begin(), scores.end()), moved = exact;
      for (LongDouble& s : moved) s *= 1 + std::numeric_limits<double>::epsilon();
      const std::vector<LongDouble> expected = plain_weights(plain, exact, false),
                                    in_double = plain_weights(plain, exact, true),
                                    of_moved = plain_weights(plain, moved, false);
      LongDouble size = 0, difference = 0, rounding = 0;
      for (std::size_t j = 0; j < scores.size(); ++j) {
        if (!std::isfinite(expected[j]) || !std::isfinite(found[j])) continue;
        is_checked = true;
        size = std::max(size, std::abs(expected[j]));
        difference = std::max(difference, std::abs(expected[j] - found[j]));
        // The effect of rounding on the plain formula, or on its scores, is not an error of the compiled one.
        for (const LongDouble other : {in_double[j], of_moved[j]})
          if (std::isfinite(other)) rounding = std::max(rounding, std::abs(other - expected[j]));
      }
      constexpr double min_size = 1e-290;  // below, float64 loses digits
      if (difference == 0 || size < min_size) continue;
      worst = std::max(worst, difference / size);
      agrees &= difference <= LongDouble{1e-12} * size + 64 * rounding;
    }
  const std::string away = error_text(static_cast<double>(worst));
  if (!is_checked) {
    card.facts.emplace_back("plain formula", "gives no finite numbers: nothing to compare");
  } else if (agrees) {
    card.facts.emplace_back("plain formula", worst < LongDouble{1e-12} ? "agrees within 1e-12 (long double)"
                                                                       : "agrees except for rounding, " + away +
                                                                             " of the largest weight (long double)");
  } else {
    card.facts.emplace_back("plain formula", "differs by " + away + " of the largest weight (long double)");
    card.problems.push_back(expected_got(card.mechanism + ": compiled weights", "those of the plain formula",
                                         "a difference of " + away + " of the largest"));
  }
}

}  // namespace cogwheel::authoring
