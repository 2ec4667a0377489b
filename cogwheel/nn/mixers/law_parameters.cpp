#include "cogwheel/nn/mixers/law_parameters.h"

#include <torch/types.h>

#include <algorithm>

namespace cogwheel::nn {
namespace {

// Where a gate is what the operator refuses, or cannot go on from.
at::Tensor refused_in(const at::Tensor& gate, Values values) {
  switch (values) {
    case Values::at_most_0:
      return gate.le(0).logical_not();
    case Values::above_0_to_1:
      return gate.gt(0).logical_and(gate.le(1)).logical_not();
    case Values::from_0_to_2:
      return gate.ge(0).logical_and(gate.le(2)).logical_not();
    case Values::at_least_0:
      return gate.ge(0).logical_and(gate.isfinite()).logical_not();
    case Values::below_0:
      return gate.lt(0).logical_and(gate.isfinite()).logical_not();
    case Values::number:
      return gate.isfinite().logical_not();
    default:
      return gate.isnan();
  }
}

bool refuses(const RecurrentParameter& parameter, const at::Tensor& gate) {
  return refused_in(gate, parameter.values).any().item<bool>();
}

}  // namespace

const RecurrentParameter& parameter_of(const RecurrentLaw& law, std::string_view name) {
  return *std::find_if(law.parameters.begin(), law.parameters.end(),
                       [&](const RecurrentParameter& each) { return each.name == name; });
}

bool of_tokens(const RecurrentParameter& parameter) { return parameter.axes.find('N') != std::string_view::npos; }

bool refuses(const RecurrentLaw& law, const ops::MechanismParameters& parameters) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const auto& each) { return refuses(parameter_of(law, each.first), each.second); });
}

bool refuses_whole(const RecurrentLaw& law, const ops::MechanismParameters& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [&](const auto& each) {
    const RecurrentParameter& parameter = parameter_of(law, each.first);
    return !of_tokens(parameter) && refuses(parameter, each.second);
  });
}

at::Tensor without_refused(const RecurrentLaw& law, ops::MechanismParameters& parameters) {
  at::Tensor lost;
  for (auto& [name, gate] : parameters) {
    const RecurrentParameter& parameter = parameter_of(law, name);
    if (!of_tokens(parameter)) continue;
    const at::Tensor refused = refused_in(gate, parameter.values);
    if (!refused.any().item<bool>()) continue;
    const at::Tensor here = refused.dim() == 4 ? refused.any(3) : refused;
    lost = lost.defined() ? lost.logical_or(here) : here;
    gate = gate.masked_fill(refused, 0);  // a value that gates of tokens may have
  }
  return lost;
}

}  // namespace cogwheel::nn
