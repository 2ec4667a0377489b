#include "cogwheel/nn/weights/initialization.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

namespace cogwheel::nn {
namespace {

// FNV-1a: std::hash may differ between standard libraries.
std::uint64_t hash(std::string_view name) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char character : name) value = (value ^ static_cast<unsigned char>(character)) * 0x100000001b3;
  return value;
}

}  // namespace

void WeightInitializer::normal(at::Tensor& weight, std::string_view name, double standard_deviation) const {
  const torch::NoGradGuard no_grad;
  // The generator takes the lower 32 bits. So two weights of a model begin alike exactly where those of their names'
  // hashes agree, whatever the seed: of 200 names by a chance of 200 · 199 / 2³³ = 5e-6. Names are known, though: of
  // the 64 that a layer of our models may have, in up to 2,000 layers, no two agree. More bits would gain nothing, and
  // change every number that was ever trained.
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(hash(name) + seed_);
  if (weight.is_cpu())
    weight.normal_(0, standard_deviation, generator);
  else  // the same numbers on every device
    weight.copy_(
        at::empty(weight.sizes(), weight.options().device(at::kCPU)).normal_(0, standard_deviation, generator));
}

}  // namespace cogwheel::nn
