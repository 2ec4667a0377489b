#include "cogwheel/nn/feed_forward.h"

#include <torch/types.h>

namespace cogwheel {
namespace {

std::int64_t units_in(const FeedForwardOptions& options) {
  return options.activation == Activation::swiglu ? 2 * options.hidden : options.hidden;
}

}  // namespace

FeedForwardImpl::FeedForwardImpl(const FeedForwardOptions& options) : activation_(options.activation) {
  in_ = register_module("in", Linear(options.width, units_in(options), options.bias));
  out_ = register_module("out", Linear(options.hidden, options.width, options.bias));
}

at::Tensor FeedForwardImpl::forward(const at::Tensor& x) {
  const at::Tensor units = in_(x);
  if (activation_ == Activation::gelu) return out_(at::gelu(units));
  const auto gate_and_up = units.chunk(2, -1);
  return out_(at::silu(gate_and_up[0]) * gate_and_up[1]);
}

void FeedForwardImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                 double standard_deviation, double residual_standard_deviation) {
  in_->initialize(initializer, name + ".in", standard_deviation);
  out_->initialize(initializer, name + ".out", residual_standard_deviation);
}

}  // namespace cogwheel
