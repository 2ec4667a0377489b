// Normal noise for diffusion, the same for an image whatever the batch that it is drawn in.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::tasks::images {

class Noise {
 public:
  // Images `first`, first + 1, … of a seed.
  explicit Noise(std::uint64_t seed, std::int64_t first = 0) : seed_(seed), first_(first) {}

  // Of the images of a batch `like`, [B, …], in its dtype and on its device; independent for each `draw`.
  at::Tensor normal(const at::Tensor& like, std::int64_t draw) const;

 private:
  std::uint64_t seed_;
  std::int64_t first_;
};

}  // namespace cogwheel::tasks::images
