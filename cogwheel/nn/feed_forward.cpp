#include "cogwheel/nn/feed_forward.h"

#include <torch/types.h>

namespace cogwheel {

FeedForwardImpl::FeedForwardImpl(std::int64_t width, std::int64_t hidden, bool bias) {
  in_ = register_module("in", Linear(width, hidden, bias));
  out_ = register_module("out", Linear(hidden, width, bias));
}

at::Tensor FeedForwardImpl::forward(const at::Tensor& x) { return out_(at::gelu(in_(x))); }

void FeedForwardImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                 double standard_deviation, double residual_standard_deviation) {
  in_->initialize(initializer, name + ".in", standard_deviation);
  out_->initialize(initializer, name + ".out", residual_standard_deviation);
}

std::int64_t FeedForwardImpl::parameter_count(std::int64_t width, std::int64_t hidden, bool bias) {
  return LinearImpl::parameter_count(width, hidden, bias) + LinearImpl::parameter_count(hidden, width, bias);
}

}  // namespace cogwheel
