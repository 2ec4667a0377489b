// Dropout (Srivastava et al. 2014) without a generator's state: the mask is a function of a seed and an element's
// index, so that the backward pass computes it again instead of storing it, and a resumed run needs only its step.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::nn {

// Derives the seed of part `index` (a step, a layer, a place within it) from `seed`. Similar seeds give unrelated ones.
std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t index);

class Dropout {
 public:
  Dropout() = default;  // none, as in evaluation: tensors pass unchanged
  Dropout(double rate, std::uint64_t seed) : rate_(rate), seed_(seed) {}

  // The same rate with independent draws.
  Dropout part(std::uint64_t index) const {
    Dropout inner = *this;
    inner.seed_ = derived_seed(seed_, index);
    return inner;
  }
  // Of one of several ranks that share texts: other draws for what it drops itself, the same seed.
  Dropout of_rank(std::int64_t rank) const {
    Dropout own = *this;
    own.rank_ = rank;
    return own;
  }

  // x · mask / (1 − rate), any shape, float32 or float64; bfloat16 gives float32. The same for any number of threads.
  at::Tensor operator()(const at::Tensor& x) const;

  double rate() const { return rate_; }
  std::uint64_t seed() const { return seed_; }

 private:
  double rate_ = 0;
  std::uint64_t seed_ = 0;
  std::int64_t rank_ = 0;
};

}  // namespace cogwheel::nn
