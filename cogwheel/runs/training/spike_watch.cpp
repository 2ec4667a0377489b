#include "cogwheel/runs/training/spike_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cogwheel::runs {
namespace {

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

double bound_of(const std::deque<double>& numbers, double deviations) {
  const double center = median({numbers.begin(), numbers.end()});
  std::vector<double> distances;
  for (const double number : numbers) distances.push_back(std::abs(number - center));
  // Numbers that hardly differ would make anything a spike.
  constexpr double of_a_normal_distribution = 1.4826, least = 1e-3;
  return center +
         deviations * std::max(of_a_normal_distribution * median(std::move(distances)), least * std::abs(center));
}

void keep_newest(std::deque<double>& numbers, double number) {
  numbers.push_back(number);
  if (numbers.size() > SpikeWatch::window) numbers.pop_front();
}

}  // namespace

std::optional<std::string> SpikeWatch::spike_in(double loss, double gradient_norm) const {
  if (deviations_ == 0) return std::nullopt;
  const auto look = [&](const char* name, double number,
                        const std::deque<double>& before) -> std::optional<std::string> {
    if (!std::isfinite(number)) return fmt::format("{} {}", name, std::isnan(number) ? "NaN" : "infinity");
    if (before.size() < fewest) return std::nullopt;
    const double bound = bound_of(before, deviations_);
    if (number <= bound) return std::nullopt;
    return fmt::format("{} {:.4g} above {:.4g}", name, number, bound);
  };
  if (auto found = look("loss", loss, losses_)) return found;
  return look("gradient norm", gradient_norm, gradient_norms_);
}

void SpikeWatch::add(double loss, double gradient_norm) {
  if (deviations_ == 0) return;
  keep_newest(losses_, loss);
  keep_newest(gradient_norms_, gradient_norm);
}

void SpikeWatch::set(const std::vector<double>& losses, const std::vector<double>& gradient_norms) {
  losses_.assign(losses.begin(), losses.end());
  gradient_norms_.assign(gradient_norms.begin(), gradient_norms.end());
}

}  // namespace cogwheel::runs
