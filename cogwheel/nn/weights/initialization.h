// Initialisation of weights.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace cogwheel::nn {

// Each tensor has its own generator, seeded by `seed` and its name: adding a tensor to a model changes no other, and
// two models start from the same values wherever names and shapes agree.
class WeightInitializer {
 public:
  explicit WeightInitializer(std::uint64_t seed) : seed_(seed) {}
  void normal(at::Tensor& weight, std::string_view name, double standard_deviation) const;

 private:
  std::uint64_t seed_;
};

}  // namespace cogwheel::nn
