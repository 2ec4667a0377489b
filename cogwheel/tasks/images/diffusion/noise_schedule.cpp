#include "cogwheel/tasks/images/diffusion/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::tasks::images {
namespace {

constexpr Range<std::int64_t> any_steps{1, 1'000'000};
constexpr Range<double> beta_of_step{.min = 0, .max = 1, .min_excluded = true, .max_excluded = true};
constexpr Range<double> beta_of_time{.min = 0, .max = 1e6, .min_excluded = true};

// `root`: √β is linear, otherwise β is.
std::vector<double> interpolated(std::int64_t steps, double first, double last, bool root) {
  expect_within("noise schedule: steps", steps, any_steps);
  expect_within("noise schedule: first beta", first, beta_of_step);
  expect_within("noise schedule: last beta", last, beta_of_step);
  std::vector<double> betas;
  for (std::int64_t n = 0; n < steps; ++n) {
    const double share = steps == 1 ? 0 : static_cast<double>(n) / static_cast<double>(steps - 1);
    const double value =
        root ? std::sqrt(first) + share * (std::sqrt(last) - std::sqrt(first)) : first + share * (last - first);
    betas.push_back(root ? value * value : value);
  }
  return betas;
}

}  // namespace

NoiseSchedule NoiseSchedule::continuous(double beta_first, double beta_last) {
  expect_within("noise schedule: first beta", beta_first, beta_of_time);
  expect_within("noise schedule: last beta", beta_last, beta_of_time);
  return {beta_first, beta_last};
}
NoiseSchedule NoiseSchedule::linear(std::int64_t steps, double beta_first, double beta_last) {
  return NoiseSchedule(interpolated(steps, beta_first, beta_last, false));
}
NoiseSchedule NoiseSchedule::scaled_linear(std::int64_t steps, double beta_first, double beta_last) {
  return NoiseSchedule(interpolated(steps, beta_first, beta_last, true));
}

NoiseSchedule::NoiseSchedule(const std::vector<double>& betas) : log_alphas_{0} {
  for (const double beta : betas) log_alphas_.push_back(log_alphas_.back() + 0.5 * std::log1p(-beta));
}

double NoiseSchedule::log_alpha(double t) const {
  if (!(t >= 0 && t <= 1)) throw std::logic_error(expected_got("noise schedule: t", "0 to 1", std::to_string(t)));
  if (steps() == 0) return -0.25 * t * t * (beta_last_ - beta_first_) - 0.5 * t * beta_first_;
  const double place = t * static_cast<double>(steps());
  const auto before = std::min(static_cast<std::size_t>(place), log_alphas_.size() - 2);
  const double share = place - static_cast<double>(before);
  return log_alphas_[before] + share * (log_alphas_[before + 1] - log_alphas_[before]);
}

double NoiseSchedule::alpha(double t) const { return std::exp(log_alpha(t)); }
double NoiseSchedule::sigma(double t) const { return std::sqrt(-std::expm1(2 * log_alpha(t))); }
double NoiseSchedule::log_snr(double t) const {
  const double log_a = log_alpha(t);
  return log_a - 0.5 * std::log(-std::expm1(2 * log_a));
}

double NoiseSchedule::beta(double t) const {
  if (steps() == 0) return beta_first_ + t * (beta_last_ - beta_first_);
  // Of the step that ends at n/T or after t. Products such as T · (n/T) are off by roundings, which no step is as short
  // as.
  constexpr double roundings = 1e-6;
  const double place = std::clamp(t, 0.0, 1.0) * static_cast<double>(steps());
  const auto after = static_cast<std::size_t>(std::max(1.0, std::ceil(place - roundings)));
  return -2 * (log_alphas_[after] - log_alphas_[after - 1]) * static_cast<double>(steps());
}

double NoiseSchedule::time_of_log_snr(double log_snr_wanted) const {
  // α² = 1/(1 + e^(−2λ)), so log α = −½ log(1 + e^(−2λ)).
  const double power = -2 * log_snr_wanted;
  const double log_a = -0.5 * (power > 0 ? power + std::log1p(std::exp(-power)) : std::log1p(std::exp(power)));
  if (log_a <= log_alpha(1)) return 1;
  if (steps() == 0) {
    const double growth = beta_last_ - beta_first_;
    // ¼ growth t² + ½ β₀ t + log α = 0, in the form that does not cancel.
    return std::min(1.0, -4 * log_a / (beta_first_ + std::sqrt(beta_first_ * beta_first_ - 4 * growth * log_a)));
  }
  const auto after = std::upper_bound(log_alphas_.begin(), log_alphas_.end(), log_a, std::greater<>());
  const auto next = static_cast<double>(after - log_alphas_.begin());
  const double above = *(after - 1), below = *after;
  return (next - 1 + (log_a - above) / (below - above)) / static_cast<double>(steps());
}

const std::vector<std::string>& NoiseSchedule::names() {
  static const std::vector<std::string> all{"continuous", "linear", "scaled_linear"};
  return all;
}

NoiseSchedule NoiseSchedule::named(std::string_view name, std::string_view what) {
  if (name == "continuous") return continuous();
  if (name == "linear") return linear();
  if (name == "scaled_linear") return scaled_linear();
  throw UsageError(expected_got(what, expected_names(name, names()), name));
}

double NoiseSchedule::network_time(double t) const {
  return steps() == 0 ? 999 * t : t * static_cast<double>(steps()) - 1;
}

double NoiseSchedule::time_of_network(double told) const {
  const double t = steps() == 0 ? told / 999 : (told + 1) / static_cast<double>(steps());
  return std::clamp(t, 0.0, 1.0);
}

}  // namespace cogwheel::tasks::images
