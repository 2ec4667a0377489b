#include "cogwheel/nn/dropout.h"

#include "cogwheel/ops/layers/dropout.h"

namespace cogwheel::nn {

std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t index) {
  const PhiloxWords words = ops::draw(seed, index, ops::DrawPurpose::seeds);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

at::Tensor Dropout::operator()(const at::Tensor& x) const {
  if (rate_ == 0) return x;
  const at::Tensor wide = x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  const std::uint64_t seed = rank_ == 0 ? seed_ : derived_seed(seed_, static_cast<std::uint64_t>(rank_));
  return ops::dropout(wide, rate_, static_cast<std::int64_t>(seed));
}

}  // namespace cogwheel::nn
