// L(N) = E + A · N^(−α): how a loss falls with the size of a model. Kaplan et al., "Scaling Laws for Neural Language
// Models" (2020), and with the limit E, Hoffmann et al., "Training Compute-Optimal Large Language Models" (2022).
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace cogwheel::compare {

struct PowerLaw {
  double limit = 0, factor = 0, exponent = 0;  // E, A, α

  double at(double size) const;
};

// The exponents that are tried: beyond them a curve cannot be told from a straight line over log N, or from a step.
inline constexpr double smallest_exponent = 0.01, largest_exponent = 4;

// The least squares of values at the same sizes, again and again.
class PowerLawFit {
 public:
  // Three sizes at least, above 0, each another. `least`: E is no smaller.
  explicit PowerLawFit(std::vector<double> sizes, std::optional<double> least = {});

  // A value for each size. For each exponent E and A are those of a line; the exponent is the best of a grid, refined.
  PowerLaw operator()(std::span<const double> values) const;

 private:
  struct Line {
    double limit, factor, squares;  // what is left of the squares
  };
  Line line(std::span<const double> powers, std::span<const double> values) const;

  std::vector<double> logarithms_ = {};  // of sizes over their geometric mean
  double mean_logarithm_ = 0;
  std::optional<double> least_;
  std::vector<double> exponents_ = {};            // the grid
  std::vector<std::vector<double>> powers_ = {};  // of each, at each size
};

}  // namespace cogwheel::compare
