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

at::Tensor FeedForwardImpl::forward(const at::Tensor& x, const ForwardContext& context) {
  const at::Tensor units = in_(x);
  if (activation_ == Activation::gelu)
    return out_(context.hooked(HookPlace::units, at::gelu(context.hooked(HookPlace::units_before, units))));
  const auto gate_and_up = units.chunk(2, -1);
  const at::Tensor gate = context.hooked(HookPlace::units_before, gate_and_up[0]),
                   up = context.hooked(HookPlace::linear_units, gate_and_up[1]);
  return out_(context.hooked(HookPlace::units, at::silu(gate) * up));
}

bool FeedForwardImpl::has_hook(HookPlace place) const {
  return place == HookPlace::units_before || place == HookPlace::units ||
         (place == HookPlace::linear_units && activation_ == Activation::swiglu);
}

void FeedForwardImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                 double standard_deviation, double residual_standard_deviation) {
  in_->initialize(initializer, name + ".in", standard_deviation);
  out_->initialize(initializer, name + ".out", residual_standard_deviation);
}

}  // namespace cogwheel
