#include "cogwheel/diffusion/noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

#include "cogwheel/core/philox.h"

namespace cogwheel {

at::Tensor Noise::normal(const at::Tensor& like, std::int64_t draw) const {
  const torch::NoGradGuard no_grad;
  at::Tensor noise = at::empty(like.sizes(), like.options().device(at::kCPU));
  for (std::int64_t image = 0; image < like.size(0); ++image) {
    const auto counted = static_cast<std::uint64_t>(first_ + image), drawn = static_cast<std::uint64_t>(draw);
    const PhiloxWords words = philox({static_cast<std::uint32_t>(counted), static_cast<std::uint32_t>(counted >> 32),
                                      static_cast<std::uint32_t>(drawn), static_cast<std::uint32_t>(drawn >> 32)},
                                     philox_key(seed_));
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{words[0]} << 32 | words[1]);
    noise.select(0, image).normal_(0, 1, generator);
  }
  return noise.to(like.device());
}

}  // namespace cogwheel
