// The mixture density beside its definition in float64, at parameters that overflow it, and as a distribution to draw
// from.
#include "cogwheel/tasks/handwriting/mixture_density.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <tuple>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::handwriting::mixture_density_test {
namespace {

at::Tensor draw(at::IntArrayRef sizes, std::uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// [P, 3], with and without a lift.
at::Tensor draw_points(std::int64_t count, std::uint64_t seed) {
  const at::Tensor points = draw({count, 3}, seed);
  points.select(1, 2).copy_(points.select(1, 2) > 0);
  return points;
}

// Equations 18 to 26 of the paper, densities and all: right where nothing of it overflows.
at::Tensor by_densities(const at::Tensor& y, const at::Tensor& points) {
  const std::int64_t mixtures = (y.size(1) - 1) / 6;
  const auto part = [&](std::int64_t index) { return y.narrow(1, 1 + index * mixtures, mixtures); };
  const at::Tensor sigma_x = part(3).exp(), sigma_y = part(4).exp(), rho = part(5).tanh();
  const at::Tensor dx = (points.narrow(1, 0, 1) - part(1)) / sigma_x, dy = (points.narrow(1, 1, 1) - part(2)) / sigma_y;
  const at::Tensor left = 1 - rho * rho, z = dx * dx + dy * dy - 2 * rho * dx * dy;
  const at::Tensor normal = (-z / (2 * left)).exp() / (2 * std::numbers::pi * sigma_x * sigma_y * left.sqrt());
  const at::Tensor lifted = y.select(1, 0).sigmoid();
  const at::Tensor coin = at::where(points.select(1, 2) > 0, lifted, 1 - lifted);
  return -((at::softmax(part(0), 1) * normal).sum(1) * coin).log();
}

TEST(MixtureDensity, IsTheNegativeLogarithmOfTheDensityWithItsGradients) {
  for (const auto& [mixtures, seed] : {std::pair(1, 1), std::pair(3, 2), std::pair(20, 3), std::pair(20, 4)}) {
    const at::Tensor y = draw({9, mixture_width(mixtures)}, 10 * seed) * 0.7;
    const at::Tensor points = draw_points(9, 10 * seed + 1), factors = draw({9}, 10 * seed + 2);
    const auto value_and_gradients = [&](auto function) {
      const at::Tensor at_y = y.clone().requires_grad_(), at_points = points.clone().requires_grad_();
      const at::Tensor value = function(at_y, at_points);
      (value * factors).sum().backward();
      return std::tuple(value.detach(), at_y.grad(), at_points.grad().narrow(1, 0, 2));
    };
    const auto [value, of_y, of_points] = value_and_gradients(negative_log_likelihood);
    const auto [expected, expected_of_y, expected_of_points] = value_and_gradients(by_densities);
    EXPECT_TRUE(at::allclose(value, expected, 1e-9, 1e-9));
    EXPECT_TRUE(at::allclose(of_y, expected_of_y, 1e-9, 1e-9));
    EXPECT_TRUE(at::allclose(of_points, expected_of_points, 1e-9, 1e-9));
  }
}

TEST(MixtureDensity, IsFiniteAtExtremeParameters) {
  constexpr std::int64_t mixtures = 2;
  const std::vector<std::tuple<double, double, double, double, double>> extremes{
      // ρ̂, σ̂, offset, π̂, ê
      {40, 0, 1, 0, 0},     {-40, 0, 1, 0, 0},      {0, 30, 1, 0, 0},      {0, -30, 1, 0, 0}, {0, 0, 1e6, 0, 0},
      {40, -30, 1e6, 0, 0}, {-40, -30, -1e6, 0, 0}, {40, 30, 1e6, 0, 0},   {0, 0, 1, 1e3, 0}, {0, 0, 1, -1e3, 0},
      {0, 0, 1, 0, 1e3},    {0, 0, 1, 0, -1e3},     {40, -30, 1, 1e3, 1e3}};
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    for (const auto& [rho, sigma, offset, weight, lift] : extremes)
      for (const double lifted : {0.0, 1.0}) {
        // Beside it an ordinary one, which is what matters where the extreme one gives nothing.
        const at::Tensor y = at::zeros({1, mixture_width(mixtures)}, type);
        y[0][0] = lift;
        y[0][1] = weight;
        y[0][1 + 3 * mixtures] = sigma;
        y[0][1 + 4 * mixtures] = -sigma;
        y[0][1 + 5 * mixtures] = rho;
        const at::Tensor points = at::tensor({offset, -offset, lifted}, type).unsqueeze(0);
        y.requires_grad_();
        const at::Tensor value = negative_log_likelihood(y, points);
        value.sum().backward();
        EXPECT_TRUE(value.isfinite().all().item<bool>()) << rho << ' ' << sigma << ' ' << offset << ' ' << weight;
        EXPECT_TRUE(y.grad().isfinite().all().item<bool>()) << rho << ' ' << sigma << ' ' << offset << ' ' << weight;
      }
}

// With d = d′ and ρ → 1 the density along the diagonal is that of one number, and log √(1 − ρ²) → log 2 − |ρ̂|.
TEST(MixtureDensity, HoldsItsLimitWhereTheCorrelationRoundsToOne) {
  const double d = 0.7, r = 40;
  const at::Tensor y = at::tensor({0.0, 0.0, 0.0, 0.0, 0.0, 0.0, r}, at::kDouble).unsqueeze(0);
  const at::Tensor points = at::tensor({d, d, 0.0}, at::kDouble).unsqueeze(0);
  const double expected = std::log(2 * std::numbers::pi) + std::numbers::ln2 - r + d * d / 2 + std::numbers::ln2;
  EXPECT_NEAR(negative_log_likelihood(y, points).item<double>(), expected, 1e-9);
}

class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : generator_(seed) {}
  double operator()() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 generator_;
};

// [draws, 3]
at::Tensor many_draws(const at::Tensor& y, double bias, std::int64_t count) {
  Uniform uniform(7);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const StrokePoint point = draw_point(y, bias, [&] { return uniform(); });
    numbers.insert(numbers.end(), {point.dx, point.dy, point.ends ? 1.0 : 0.0});
  }
  return at::tensor(numbers, at::kDouble).view({count, 3});
}

void expect_mean(const at::Tensor& draws, double expected, const char* what) {
  const double error = draws.std().item<double>() / std::sqrt(static_cast<double>(draws.numel()));
  EXPECT_NEAR(draws.mean().item<double>(), expected, 4 * error) << what;
}

TEST(MixtureDensity, DrawsHaveItsMeanCovarianceAndLifts) {
  // Two Gaussians; with a bias the widths shrink and the weights part.
  const double lift = -0.8, weights[2] = {0.4, -0.3}, mean_x[2] = {1, -0.5}, mean_y[2] = {-1, 0.25},
               log_x[2] = {-0.2, 0.3}, log_y[2] = {0.4, -0.5}, rho[2] = {0.9, -0.4};
  std::vector<double> row{lift};
  for (const auto* part : {weights, mean_x, mean_y, log_x, log_y, rho}) row.insert(row.end(), part, part + 2);
  const at::Tensor y = at::tensor(row, at::kDouble);
  for (const double bias : {0.0, 1.5}) {
    const double first = 1 / (1 + std::exp((weights[1] - weights[0]) * (1 + bias)));
    const double share[2] = {first, 1 - first};
    double x = 0, y_ = 0, xx = 0, yy = 0, xy = 0;
    for (const int m : {0, 1}) {
      const double sx = std::exp(log_x[m] - bias), sy = std::exp(log_y[m] - bias);
      x += share[m] * mean_x[m];
      y_ += share[m] * mean_y[m];
      xx += share[m] * (sx * sx + mean_x[m] * mean_x[m]);
      yy += share[m] * (sy * sy + mean_y[m] * mean_y[m]);
      xy += share[m] * (std::tanh(rho[m]) * sx * sy + mean_x[m] * mean_y[m]);
    }
    const at::Tensor draws = many_draws(y, bias, 8000);
    const at::Tensor dx = draws.select(1, 0), dy = draws.select(1, 1);
    expect_mean(dx, x, "x");
    expect_mean(dy, y_, "y");
    expect_mean(dx * dx, xx, "xx");
    expect_mean(dy * dy, yy, "yy");
    expect_mean(dx * dy, xy, "xy");
    expect_mean(draws.select(1, 2), 1 / (1 + std::exp(-lift)), "lifts");
  }
}

TEST(MixtureDensity, DrawsNothingFromNaN) {
  const at::Tensor y = at::zeros({mixture_width(2)});
  y[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(draw_point(y, 0, [] { return 0.5; }), Error);
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting::mixture_density_test
