#include "cogwheel/nn/mixers/recurrent_gate.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::nn {
namespace {

// Of several forms, the first that each head has for itself.
std::string_view axes_of(const RecurrentParameter& parameter) {
  for (std::string_view rest = parameter.axes; true;) {
    const std::size_t bar = rest.find('|');
    const std::string_view axes = rest.substr(0, bar);
    if (axes.find('H') != std::string_view::npos || bar == std::string_view::npos) return axes;
    rest.remove_prefix(bar + 1);
  }
}

std::vector<std::int64_t> sizes_of(std::string_view axes, const RecurrentGateOptions& options) {
  std::vector<std::int64_t> sizes;
  for (const char axis : axes)
    if (axis == 'H')
      sizes.push_back(options.heads);
    else if (axis == 'D' || axis == 'S')  // as many slots as a key has entries
      sizes.push_back(options.key_width);
    else if (axis == 'V')
      sizes.push_back(options.value_width);
  return sizes;
}

// The constants of Mamba-2: 1 to 16.
double initial_constant(std::int64_t head, std::int64_t heads) {
  return std::log(heads < 2 ? 1 : 1 + 15 * static_cast<double>(head) / static_cast<double>(heads - 1));
}

}  // namespace

RecurrentGateImpl::RecurrentGateImpl(const RecurrentGateOptions& options) : options_(options) {
  const std::string_view axes = axes_of(options.parameter);
  sizes_ = sizes_of(axes, options);
  reads_tokens_ = axes.find('N') != std::string_view::npos;
  const std::int64_t outputs =
      std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  // Papers give the ranks of wide models.
  const std::int64_t rank = std::min(options.recipe.rank, std::max<std::int64_t>(1, options.inputs / 8));
  if (reads_tokens_ && rank > 0) into_rank_ = register_module("into_rank", Linear(options.inputs, rank, false));
  if (reads_tokens_)
    projection_ = register_module("projection", Linear(rank > 0 ? rank : options.inputs, outputs, false));
  bias_ = new_parameter(*this, "bias", {outputs});
  if (options.recipe.map == GateMap::step_times_constant) constant_ = new_parameter(*this, "constant", {options.heads});
}

// The bound of HGRN2, which leaves the last layer room to forget.
double RecurrentGateImpl::lower_bound() const {
  return static_cast<double>(options_.layer) / static_cast<double>(options_.layers);
}

RecurrentGateImpl::Value RecurrentGateImpl::forward(const at::Tensor& x) {
  at::Tensor y = bias_;
  if (reads_tokens_) {
    at::Tensor read = into_rank_ ? into_rank_(x) : x;
    if (into_rank_ && options_.recipe.tanh) read = read.tanh();
    y = projection_(read).to(bias_.scalar_type()) + bias_;
  }
  y = y.unflatten(-1, sizes_);
  if (reads_tokens_) y = y.transpose(1, 2);  // [B, H, N, …]
  Value value = mapped(y);
  if (options_.doubled) value.tensor = value.tensor * 2;
  return value;
}

RecurrentGateImpl::Value RecurrentGateImpl::mapped(const at::Tensor& y) const {
  switch (options_.recipe.map) {
    case GateMap::linear:
      return {y};
    case GateMap::sigmoid:
      return {y.sigmoid()};
    case GateMap::log_sigmoid:
      return {at::log_sigmoid(y)};
    case GateMap::log_sigmoid_16:
      return {at::log_sigmoid(y) / 16};
    case GateMap::above_bound: {
      const double bound = lower_bound();
      return {bound == 0 ? at::log_sigmoid(y) : (bound + (1 - bound) * y.sigmoid()).log()};
    }
    case GateMap::softplus:
      return {at::softplus(y)};
    case GateMap::minus_exponential:
      return {-y.exp()};
    case GateMap::step_times_constant: {
      const at::Tensor step = at::softplus(y);
      return {-step * constant_.exp().unsqueeze(-1),
              options_.recipe.multiplies_value ? step.unsqueeze(-1) : at::Tensor()};
    }
  }
  return {};
}

void RecurrentGateImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                   double standard_deviation) {
  const torch::NoGradGuard no_grad;
  if (into_rank_) into_rank_->initialize(initializer, name + ".into_rank", standard_deviation);
  if (projection_) projection_->initialize(initializer, name + ".projection", standard_deviation);
  const std::int64_t channels = bias_.numel() / options_.heads;
  const double depth =
      static_cast<double>(options_.layer) / static_cast<double>(std::max<std::int64_t>(1, options_.layers - 1));
  std::vector<double> values;
  for (std::int64_t head = 0; head < options_.heads; ++head)
    for (std::int64_t channel = 0; channel < channels; ++channel)
      values.push_back(options_.recipe.initial({.head = head,
                                                .heads = options_.heads,
                                                .channel = channel,
                                                .channels = channels,
                                                .row = sizes_.size() > 2 ? channel / sizes_.back() : channel,
                                                .depth = depth}));
  bias_.copy_(at::tensor(values, at::kDouble));
  if (!constant_.defined()) return;
  values.clear();
  for (std::int64_t head = 0; head < options_.heads; ++head) values.push_back(initial_constant(head, options_.heads));
  constant_.copy_(at::tensor(values, at::kDouble));
}

}  // namespace cogwheel::nn
