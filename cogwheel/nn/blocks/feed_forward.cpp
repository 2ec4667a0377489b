#include "cogwheel/nn/blocks/feed_forward.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cogwheel/nn/ranks/divided_linear.h"

namespace cogwheel::nn {
namespace {

std::int64_t units_in(const FeedForwardOptions& options) {
  return options.activation == Activation::swiglu ? 2 * options.hidden : options.hidden;
}

const char* approximation(Activation activation) { return activation == Activation::gelu_tanh ? "tanh" : "none"; }

}  // namespace

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names{"gelu", "swiglu", "gelu_tanh"};
  return names;
}

Activation activation_of(std::string_view name) {
  const std::vector<std::string>& names = activation_names();
  return static_cast<Activation>(std::find(names.begin(), names.end(), name) - names.begin());
}

FeedForwardImpl::FeedForwardImpl(const FeedForwardOptions& options) : activation_(options.activation) {
  up_ = register_module("up", Linear(options.width, units_in(options), options.bias));
  out_ = register_module("out", Linear(options.hidden, options.width, options.bias));
}

at::Tensor FeedForwardImpl::forward(const at::Tensor& x, const ForwardContext& context) {
  at::Tensor units = up_(x);
  const auto out = [&](const at::Tensor& read) {
    return context.heads != nullptr ? sum_of_own(*out_, read, *context.heads, "hidden units") : out_(read);
  };
  if (activation_ != Activation::swiglu)
    return out(context.hooked(HookPlace::units, at::gelu(context.hooked(HookPlace::units_before, std::move(units)),
                                                         approximation(activation_))));
  const auto gate_and_up = units.chunk(2, -1);
  const at::Tensor gate = context.hooked(HookPlace::units_before, gate_and_up[0]),
                   up = context.hooked(HookPlace::linear_units, gate_and_up[1]);
  return out(context.hooked(HookPlace::units, at::silu(gate) * up));
}

std::vector<DividedParameter> FeedForwardImpl::divided_parameters() const {
  const std::int64_t hidden = out_->weight().size(1);
  std::vector<DividedParameter> divided =
      divided_outputs(*up_, std::vector<std::int64_t>(activation_ == Activation::swiglu ? 2 : 1, hidden));
  divided.push_back(divided_inputs(*out_));
  return divided;
}

at::Tensor FeedForwardImpl::jacobians(const at::Tensor& x) {
  const torch::NoGradGuard no_gradient;
  const at::Tensor units = up_(x);
  // Of a unit by each of its inputs: its derivative times its row of the matrix.
  const auto of_rows = [&](const at::Tensor& derivative, std::int64_t first) {
    return derivative.unsqueeze(2) * up_->weight().narrow(0, first, derivative.size(1));
  };
  switch (activation_) {
    case Activation::gelu:
    case Activation::gelu_tanh:
      return at::matmul(out_->weight(),
                        of_rows(at::gelu_backward(at::ones_like(units), units, approximation(activation_)), 0));
    case Activation::swiglu: {
      const auto gate_and_up = units.chunk(2, -1);
      const at::Tensor by_gate = at::silu_backward(gate_and_up[1], gate_and_up[0]), by_up = at::silu(gate_and_up[0]);
      return at::matmul(out_->weight(), of_rows(by_gate, 0) + of_rows(by_up, by_gate.size(1)));
    }
  }
  return {};
}

std::int64_t FeedForwardImpl::numbers_of_jacobian() const {
  return up_->weight().numel() + out_->weight().size(0) * up_->weight().size(1);
}

bool FeedForwardImpl::has_hook(HookPlace place) const {
  return place == HookPlace::units_before || place == HookPlace::units ||
         (place == HookPlace::linear_units && activation_ == Activation::swiglu);
}

void FeedForwardImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                 double standard_deviation, double residual_standard_deviation) {
  up_->initialize(initializer, name + ".in", standard_deviation);  // its seed, as long as there have been runs
  out_->initialize(initializer, name + ".out", residual_standard_deviation);
}

}  // namespace cogwheel::nn
