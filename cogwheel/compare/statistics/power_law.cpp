#include "cogwheel/compare/statistics/power_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cogwheel::compare {
namespace {

constexpr std::size_t grid = 48;

std::vector<double> powers_of(std::span<const double> logarithms, double exponent) {
  std::vector<double> powers;
  for (const double logarithm : logarithms) powers.push_back(std::exp(-exponent * logarithm));
  return powers;
}

}  // namespace

double PowerLaw::at(double size) const { return limit + factor * std::pow(size, -exponent); }

PowerLawFit::PowerLawFit(std::vector<double> sizes, std::optional<double> least) : least_(least) {
  for (const double size : sizes) logarithms_.push_back(std::log(size));
  mean_logarithm_ = std::accumulate(logarithms_.begin(), logarithms_.end(), 0.0) / static_cast<double>(sizes.size());
  for (double& logarithm : logarithms_) logarithm -= mean_logarithm_;
  for (std::size_t index = 0; index <= grid; ++index) {
    const double share = static_cast<double>(index) / static_cast<double>(grid);
    exponents_.push_back(smallest_exponent * std::pow(largest_exponent / smallest_exponent, share));
    powers_.push_back(powers_of(logarithms_, exponents_.back()));
  }
}

PowerLawFit::Line PowerLawFit::line(std::span<const double> powers, std::span<const double> values) const {
  const auto count = static_cast<double>(values.size());
  const double x = std::accumulate(powers.begin(), powers.end(), 0.0) / count,
               y = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double xx = 0, xy = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    xx += (powers[index] - x) * (powers[index] - x);
    xy += (powers[index] - x) * (values[index] - y);
  }
  Line found{.limit = y - xy / xx * x, .factor = xy / xx, .squares = 0};
  if (least_ && found.limit < *least_) {
    double squares = 0, products = 0;
    for (std::size_t index = 0; index < values.size(); ++index) {
      squares += powers[index] * powers[index];
      products += powers[index] * (values[index] - *least_);
    }
    found.limit = *least_, found.factor = products / squares;
  }
  for (std::size_t index = 0; index < values.size(); ++index) {
    const double left = values[index] - found.limit - found.factor * powers[index];
    found.squares += left * left;
  }
  return found;
}

PowerLaw PowerLawFit::operator()(std::span<const double> values) const {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t index = 0; index < exponents_.size(); ++index)
    if (const double squares = line(powers_[index], values).squares; squares < least) least = squares, best = index;
  // Between the neighbours of the best, by the golden section of log α.
  double low = std::log(exponents_[best == 0 ? 0 : best - 1]),
         high = std::log(exponents_[std::min(best + 1, exponents_.size() - 1)]);
  const auto squares_at = [&](double logarithm) {
    return line(powers_of(logarithms_, std::exp(logarithm)), values).squares;
  };
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double left = high - golden * (high - low), right = low + golden * (high - low);
  double of_left = squares_at(left), of_right = squares_at(right);
  for (int step = 0; step < 18; ++step) {
    if (of_left <= of_right) {
      high = right, right = left, of_right = of_left;
      left = high - golden * (high - low), of_left = squares_at(left);
    } else {
      low = left, left = right, of_left = of_right;
      right = low + golden * (high - low), of_right = squares_at(right);
    }
  }
  double exponent = std::exp((low + high) / 2);
  if (best == 0 && least <= squares_at(std::log(exponent))) exponent = exponents_.front();
  if (best + 1 == exponents_.size() && least <= squares_at(std::log(exponent))) exponent = exponents_.back();
  const Line found = line(powers_of(logarithms_, exponent), values);
  return {found.limit, found.factor * std::exp(exponent * mean_logarithm_), exponent};
}

}  // namespace cogwheel::compare
