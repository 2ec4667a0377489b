#include "cogwheel/nn/attention_maps.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/forward_context.h"

namespace cogwheel::nn {

WeightsOfHeads attention_maps(const std::function<void(const ForwardContext&)>& pass) {
  const torch::NoGradGuard no_grad;
  WeightsOfHeads maps;
  Hooks hooks;
  hooks.read(HookPlace::pattern, [&](const HookPoint&, const at::Tensor& layer) {
    maps.emplace_back();
    for (const at::Tensor& head : layer.squeeze(0).unbind(0)) {
      const at::Tensor weights = head.to(at::kFloat).cpu().contiguous();
      const float* first = weights.const_data_ptr<float>();
      maps.back().emplace_back(first, first + weights.numel());
    }
  });
  pass({.hooks = &hooks});
  return maps;
}

}  // namespace cogwheel::nn
