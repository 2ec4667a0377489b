#include "cogwheel/nn/mixers/causal_convolution.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::nn {

CausalConvolutionImpl::CausalConvolutionImpl(std::int64_t channels) {
  weight_ = new_parameter(*this, "weight", {taps, channels});
  bias_ = new_parameter(*this, "bias", {channels});
}

at::Tensor CausalConvolutionImpl::forward(const at::Tensor& x, const at::Tensor& before, const at::Tensor& places) {
  const std::int64_t missing = taps - 1 - (before.defined() ? before.size(1) : 0);
  const at::Tensor joined = before.defined() ? at::cat({before, x}, 1) : x;
  const at::Tensor padded = at::constant_pad_nd(joined, {0, 0, missing, 0});
  at::Tensor sum = bias_;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    at::Tensor read = padded.narrow(1, tap, x.size(1));
    if (places.defined()) read = read.masked_fill((places < taps - 1 - tap).unsqueeze(-1), 0);
    sum = at::addcmul(sum, read, weight_[tap]);
  }
  return sum;
}

at::Tensor CausalConvolutionImpl::tail(const at::Tensor& x, const at::Tensor& before) {
  const at::Tensor joined = before.defined() ? at::cat({before, x}, 1) : x;
  const std::int64_t kept = std::min(taps - 1, joined.size(1));
  return joined.narrow(1, joined.size(1) - kept, kept).clone();
}

void CausalConvolutionImpl::initialize(const WeightInitializer& initializer, const std::string& name) {
  const torch::NoGradGuard no_grad;
  // The variance of torch::nn::Conv1d's uniform ones.
  initializer.normal(weight_, name + ".weight", 1 / std::sqrt(3.0 * taps));
  bias_.zero_();
}

}  // namespace cogwheel::nn
