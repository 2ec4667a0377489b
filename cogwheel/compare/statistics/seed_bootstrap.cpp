#include "cogwheel/compare/statistics/seed_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cogwheel/core/random.h"

namespace cogwheel::compare {

std::vector<double> seed_weights(std::int64_t seeds, std::uint64_t seed, std::int64_t draw) {
  NumberedDraws draws(seed, stream_named("boot"), static_cast<std::uint64_t>(draw));
  std::vector<double> weights;
  // Of sixteen uniform numbers, since an interval is of the tails.
  const auto normal = [&] { return (draws.normal() + draws.normal()) / std::numbers::sqrt2; };
  for (std::int64_t index = 0; index < seeds; ++index) weights.push_back(normal());
  double squares = 0;
  for (std::int64_t index = 1; index < seeds; ++index) squares += std::pow(normal(), 2);
  const auto count = static_cast<double>(seeds);
  const double scale = std::sqrt((count - 1) / squares) / std::sqrt(count * (count - 1));
  for (double& weight : weights) weight *= scale;
  return weights;
}

DrawnInterval interval_of_draws(std::vector<double> draws, double confidence) {
  std::sort(draws.begin(), draws.end());
  const auto quantile = [&](double share) {
    // So that another draw lies below it with that probability.
    const double place =
        std::clamp(share * static_cast<double>(draws.size() + 1) - 1, 0.0, static_cast<double>(draws.size() - 1));
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, draws.size() - 1);
    return draws[below] + (place - static_cast<double>(below)) * (draws[above] - draws[below]);
  };
  return {quantile((1 - confidence) / 2), quantile((1 + confidence) / 2)};
}

}  // namespace cogwheel::compare
