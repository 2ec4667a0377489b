#include "cogwheel/tasks/handwriting/mixture_density.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::handwriting {

at::Tensor negative_log_likelihood(const at::Tensor& y, const at::Tensor& points) {
  // In float64: of exp(−2σ̂) float32 holds only |σ̂| up to 44.
  const at::Tensor rows = y.to(at::kDouble), at_points = points.to(rows.options());
  const auto parts = rows.narrow(1, 1, rows.size(1) - 1).chunk(6, 1);
  const at::Tensor &weight = parts[0], &mean_x = parts[1], &mean_y = parts[2], &log_x = parts[3], &log_y = parts[4],
                   &r = parts[5];
  const at::Tensor x = (at_points.narrow(1, 0, 1) - mean_x) * (-log_x).exp(),
                   y_ = (at_points.narrow(1, 1, 1) - mean_y) * (-log_y).exp();
  const at::Tensor quadratic = ((x - y_).square() * (1 + (2 * r).exp()) + (x + y_).square() * (1 + (-2 * r).exp())) / 8;
  const at::Tensor half_log = std::numbers::ln2 - r.abs() - (-2 * r.abs()).exp().log1p();  // ½ log(1 − ρ²)
  const at::Tensor log_normal = -std::log(2 * std::numbers::pi) - log_x - log_y - half_log - quadratic;
  const at::Tensor lifted = at_points.select(1, 2), coin = rows.select(1, 0);
  const at::Tensor log_coin = lifted * at::log_sigmoid(coin) + (1 - lifted) * at::log_sigmoid(-coin);
  return -(at::log_softmax(weight, 1) + log_normal).logsumexp(1) - log_coin;
}

StrokePoint draw_point(const at::Tensor& given, double bias, const std::function<double()>& uniform) {
  const at::Tensor y = given.detach().to(at::kDouble).cpu().contiguous();
  if (!y.isfinite().all().item<bool>())
    throw Error(expected_got("handwriting", "finite numbers from the model", "NaN or infinity"));
  const double* row = y.const_data_ptr<double>();
  const std::int64_t mixtures = (y.numel() - 1) / 6;
  const auto part = [&](std::int64_t index) { return row + 1 + index * mixtures; };

  const double largest = *std::max_element(part(0), part(1));
  std::vector<double> cumulative;
  double total = 0;
  for (std::int64_t m = 0; m < mixtures; ++m)
    cumulative.push_back(total += std::exp((part(0)[m] - largest) * (1 + bias)));
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), uniform() * total);
  const std::int64_t m = std::min<std::int64_t>(chosen - cumulative.begin(), mixtures - 1);

  // Box and Muller: two independent normal numbers. 1 − u is never 0.
  const double radius = std::sqrt(-2 * std::log1p(-uniform())), angle = 2 * std::numbers::pi * uniform();
  const double first = radius * std::cos(angle), second = radius * std::sin(angle);
  const double rho = std::tanh(part(5)[m]), beside = 1 / std::cosh(part(5)[m]);  // √(1 − ρ²)
  StrokePoint point;
  point.dx = static_cast<float>(part(1)[m] + std::exp(part(3)[m] - bias) * first);
  point.dy = static_cast<float>(part(2)[m] + std::exp(part(4)[m] - bias) * (rho * first + beside * second));
  point.ends = uniform() < 1 / (1 + std::exp(-row[0]));
  return point;
}

}  // namespace cogwheel::tasks::handwriting
