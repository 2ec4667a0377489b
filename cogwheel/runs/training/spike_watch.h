// Tells a step whose loss or gradient has jumped from those before it.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace cogwheel::runs {

class SpikeWatch {
 public:
  // What steps are compared with: the last so many, once there are at least `fewest` of them.
  static constexpr std::size_t window = 128, fewest = 32;

  // `deviations`: how many robust standard deviations (1.4826 times the median distance from the median) above the
  // median are a spike; 0: nothing is.
  explicit SpikeWatch(double deviations) : deviations_(deviations) {}

  // What is beyond the bound, as in "loss 9.41 above 3.2"; nothing where neither is. A number that is not finite is
  // beyond any.
  std::optional<std::string> spike_in(double loss, double gradient_norm) const;
  // Steps that were no spikes.
  void add(double loss, double gradient_norm);

  // For checkpoints; the same lengths.
  const std::deque<double>& losses() const { return losses_; }
  const std::deque<double>& gradient_norms() const { return gradient_norms_; }
  void set(const std::vector<double>& losses, const std::vector<double>& gradient_norms);

 private:
  double deviations_;
  std::deque<double> losses_, gradient_norms_;
};

}  // namespace cogwheel::runs
