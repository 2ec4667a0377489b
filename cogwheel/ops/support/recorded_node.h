// Autograd nodes like those of libtorch's own operators, because torch.func refuses torch::autograd::Function.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace cogwheel::ops {

using torch::autograd::variable_list;

// Gradients of the first inputs, undefined where there is none, from the saved tensors and the gradients of the
// outputs, which are undefined for unused outputs.
using Backward = std::function<variable_list(const variable_list& inputs, const variable_list& outputs,
                                             const variable_list& gradients)>;

// An operator composed of ATen's operators, from its inputs to its outputs.
using Composition = std::function<variable_list(const variable_list& inputs)>;

// Whether a gradient of these is to be recorded.
bool needs_record(const variable_list& tensors);

// Whether a transform of torch.func is running.
bool within_torch_func();

// Whether a gradient of these may be recorded, at this level of torch.func or at one around it, of which they say
// nothing here.
bool may_record(const variable_list& tensors);

// Whether any carries a tangent of forward-mode differentiation.
bool has_tangent(const variable_list& tensors);

// Makes `outputs` those of a node; `also_saved` are outputs without a gradient that backward reads after these.
// Undefined tensors may stand among the inputs.
void record(const char* name, const variable_list& inputs, const variable_list& outputs,
            const variable_list& also_saved, Backward backward);

// The tensors that a node keeps until its backward pass. That pass is differentiable in all but `constants`.
struct Saved {
  variable_list inputs, outputs, constants;
};

// The same for a node that keeps less than its inputs and outputs, or other tensors.
void record_saving(const char* name, const variable_list& inputs, const variable_list& outputs, const Saved& saved,
                   Backward backward);

// The gradients of the inputs that need one, by autograd through the composition. If gradients are being recorded,
// these are too.
variable_list gradients_through(const Composition& composition, const variable_list& inputs,
                                const variable_list& gradients);

// The outputs of `fused`, with the derivatives of a composition that computes the same. The composition runs only when
// needed: for tangents at once, for gradients in backward.
variable_list differentiated_by(const char* name, const variable_list& inputs,
                                const std::function<variable_list()>& fused, const Composition& composition);

}  // namespace cogwheel::ops
