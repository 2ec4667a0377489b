// Dropout (Srivastava et al. 2014) without a generator's state: the mask is a function of a seed and an element's
// index, so that the backward pass makes it again instead of keeping it, and a resumed run needs nothing but its step.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel {

// The seed of part `index` of what `seed` is for: a step, a layer, a place within it. Near seeds have parts far apart.
std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t index);

class Dropout {
 public:
  Dropout() = default;  // none, as in evaluation: every tensor passes as it is
  Dropout(double rate, std::uint64_t seed) : rate_(rate), seed_(seed) {}

  // The same rate with draws of its own.
  Dropout part(std::uint64_t index) const { return {rate_, derived_seed(seed_, index)}; }

  // x · mask / (1 − rate), any shape, float32 or float64; of bfloat16 in float32. The same for any number of threads.
  at::Tensor operator()(const at::Tensor& x) const;

  double rate() const { return rate_; }
  std::uint64_t seed() const { return seed_; }

 private:
  double rate_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace cogwheel
