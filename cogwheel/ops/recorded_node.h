// Autograd nodes as libtorch's own operators have them. torch::autograd::Function would do, but torch.func refuses it.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace cogwheel {

using torch::autograd::variable_list;

// Gradients of the first inputs, undefined where there is none, from what was saved and the gradients of the outputs,
// which are undefined where nothing reads an output.
using Backward = std::function<variable_list(const variable_list& inputs, const variable_list& outputs,
                                             const variable_list& gradients)>;

// An operator in ATen's own operators, from its inputs to its outputs.
using Composition = std::function<variable_list(const variable_list& inputs)>;

// Whether a gradient of these is to be recorded.
bool needs_record(const variable_list& tensors);

// Whether any carries a tangent of forward-mode differentiation.
bool has_tangent(const variable_list& tensors);

// Makes `outputs` those of a node; `also_saved` are outputs without a gradient that backward reads after these.
// Undefined tensors may stand among the inputs.
void record(const char* name, const variable_list& inputs, const variable_list& outputs,
            const variable_list& also_saved, Backward backward);

// What a node keeps until its backward pass. Derivatives of that pass go on through all but `constants`.
struct Saved {
  variable_list inputs, outputs, constants;
};

// The same for a node that keeps less than its inputs and outputs, or other tensors.
void record_saving(const char* name, const variable_list& inputs, const variable_list& outputs, const Saved& saved,
                   Backward backward);

// The gradients of the inputs that need one, by autograd through the composition. Where gradients are recorded, so is
// this one, in everything that it depends on.
variable_list gradients_through(const Composition& composition, const variable_list& inputs,
                                const variable_list& gradients);

// The outputs of `fused`, whose derivatives are those of a composition that computes the same. Nothing of it runs until
// they are asked for: tangents at once, gradients in backward.
variable_list differentiated_by(const char* name, const variable_list& inputs,
                                const std::function<variable_list()>& fused, const Composition& composition);

}  // namespace cogwheel
