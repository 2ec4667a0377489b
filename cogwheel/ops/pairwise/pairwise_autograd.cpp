// Derivatives of cogwheel::pairwise. Gradients have a kernel, cogwheel::pairwise_backward; its own derivatives, and
// tangents, come from a dense composition (dense_pairwise.h).
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>
#include <utility>

#include "cogwheel/ops/pairwise/dense_pairwise.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/key_panels.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

namespace place = pairwise_input;

// Options for use after the call: their tensors are the saved ones, so that autograd notices if one was changed since.
struct KeptOptions {
  explicit KeptOptions(const PairwiseOptions& given) : options(given) {
    for (const auto tensor : place::option_tensors) options.*tensor = std::nullopt;
  }

  PairwiseOptions with(const variable_list& inputs) const {
    PairwiseOptions result = options;
    for (std::size_t i = place::options; i < place::count; ++i)
      if (inputs[i].defined()) result.*place::option_tensors[i - place::options] = inputs[i];
    return result;
  }

 private:
  PairwiseOptions options;
};

variable_list listed(const PairwiseGradients& gradients) {
  return std::apply([](const auto&... each) { return variable_list{each...}; }, gradients);
}

PairwiseGradients as_gradients(const variable_list& list) {
  return [&]<std::size_t... index>(std::index_sequence<index...>) { return PairwiseGradients{list[index]...}; }
  (std::make_index_sequence<place::differentiable>());
}

WantedGradients wanted_gradients(const variable_list& inputs) {
  WantedGradients result;
  for (std::size_t i = place::options; i < place::differentiable; ++i)
    result.*place::wanted[i - place::options] = inputs[i].defined() && inputs[i].requires_grad();
  return result;
}

// Here and not where options are checked, because each level of torch.func passes here, with its own derivatives.
void check_constants(const variable_list& inputs) {
  if (needs_record({inputs[place::alibi]})) refuse("alibi", "slopes that need no gradient", "slopes that need one");
  if (has_tangent({inputs[place::alibi]})) refuse("alibi", "slopes without a tangent", "slopes with one");
}

PairwiseOutputs pairwise_autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& parameters, std::string_view mechanism,
                                  const PairwiseOptions& options, const WantedOutputs& outputs) {
  const variable_list inputs = pairwise_inputs(query, key, value, parameters, options);
  check_constants(inputs);
  if (are_panels(key) && (has_tangent(inputs) || needs_record(inputs)))  // derivatives are of rows
    return pairwise_autograd(query, rows_of_panels(key, value.sym_size(2)), value, parameters, mechanism, options,
                             outputs);
  at::Tensor output, shift, mass, statistics;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::tie(output, shift, mass, statistics) = pairwise(query, key, value, parameters, mechanism, options, outputs);
  }
  if (has_tangent(inputs))
    return {dense_pairwise(inputs, shift, mechanism, options, outputs.wide), shift, mass, statistics};
  if (needs_record(inputs)) {
    record("PairwiseBackward", inputs, {output}, {shift, mass, statistics},
           [wanted = wanted_gradients(inputs), kept = KeptOptions(options), name = std::string(mechanism)](
               const variable_list& in, const variable_list& out, const variable_list& gradients) {
             return listed(pairwise_backward(gradients[0], in[place::query], in[place::key], in[place::value],
                                             in[place::parameters], {out[0], out[1], out[2]}, name, wanted,
                                             kept.with(in)));
           });
  }
  return {output, shift, mass, statistics};
}

// The gradients of `inputs` by the composition, in the sizes of the kernel's; the last of `inputs` is the gradient of
// the output. All of them, needed or not, because tangents reach them all.
variable_list dense_backward(const variable_list& inputs, const at::Tensor& shift, std::string_view mechanism,
                             const WantedGradients& wanted, const PairwiseOptions& options) {
  const at::AutoGradMode recorded(may_record(inputs));
  const variable_list given(inputs.begin(), inputs.begin() + place::differentiable);
  variable_list leaves = given;
  const auto differentiated = [&](std::size_t i) {
    return i < place::options || wanted.*place::wanted[i - place::options];
  };
  for (std::size_t i = 0; i < place::differentiable; ++i) {
    if (!leaves[i].defined() || leaves[i].requires_grad()) continue;
    leaves[i] = leaves[i].view_as(leaves[i]);
    if (differentiated(i)) leaves[i].set_requires_grad(true);
  }
  const variable_list gradients = gradients_through(
      [&](const variable_list& in) { return variable_list{dense_pairwise(in, shift, mechanism, options)}; }, leaves,
      {inputs[place::count]});
  variable_list result;
  for (std::size_t i = 0; i < place::differentiable; ++i) {
    if (!given[i].defined() || !differentiated(i))
      result.push_back(at::zeros({0}, inputs[place::query].options().dtype(computed_type(inputs[place::query]))));
    else
      result.push_back(gradients[i].defined() ? gradients[i] : at::zeros_like(given[i]));
  }
  return result;
}

PairwiseGradients pairwise_backward_autograd(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value, const at::Tensor& parameters,
                                             const PairwiseSaved& saved, std::string_view mechanism,
                                             const WantedGradients& wanted, const PairwiseOptions& options) {
  variable_list inputs = pairwise_inputs(query, key, value, parameters, options);
  inputs.push_back(gradient);
  const auto fused = [&] {
    return listed(pairwise_backward(gradient, query, key, value, parameters, saved, mechanism, wanted, options));
  };
  const auto composition = [wanted, kept = KeptOptions(options), name = std::string(mechanism),
                            shift = saved.shift.detach()](const variable_list& in) {
    return dense_backward(in, shift, name, wanted, kept.with(in));
  };
  return as_gradients(differentiated_by("PairwiseBackwardBackward", inputs, fused, composition));
}

}  // namespace

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("pairwise", Unbundled<pairwise_autograd>::call);
  library.impl("pairwise_backward", Unbundled<pairwise_backward_autograd>::call);
}

}  // namespace cogwheel::ops
