#include "cogwheel/ops/recorded_node.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cogwheel {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;

class RecordedNode final : public Node {
 public:
  RecordedNode(const char* name, Backward backward) : name_(name), backward_(std::move(backward)) {}

  std::string name() const override { return name_; }

  void save(const Saved& saved) {
    for (const at::Tensor& input : saved.inputs) inputs_.emplace_back(input, false);
    for (const at::Tensor& output : saved.outputs) outputs_.emplace_back(output, true);
    for (const at::Tensor& constant : saved.constants) constants_.emplace_back(constant, false);
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::none_of(gradients.begin(), gradients.end(), [](const at::Tensor& each) { return each.defined(); }))
      return variable_list(num_outputs());
    variable_list inputs, outputs;
    for (const SavedVariable& input : inputs_) inputs.push_back(input.unpack());
    for (const SavedVariable& output : outputs_) outputs.push_back(output.unpack(getptr()));
    for (const SavedVariable& constant : constants_) outputs.push_back(constant.unpack());
    variable_list result = backward_(inputs, outputs, gradients);
    result.resize(num_outputs());
    for (std::size_t i = 0; i < result.size(); ++i)
      if (!task_should_compute_output(i)) result[i] = at::Tensor();
    return result;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto* saved : {&inputs_, &outputs_, &constants_})
      for (SavedVariable& each : *saved) each.reset_data();
  }

 private:
  const char* name_;
  Backward backward_;
  std::vector<SavedVariable> inputs_, outputs_, constants_;
};

}  // namespace

bool needs_record(const variable_list& tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& each) {
           return each.defined() && each.requires_grad();
         });
}

bool has_tangent(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& each) { return torch::autograd::isFwGradDefined(each); });
}

void record(const char* name, const variable_list& inputs, const variable_list& outputs,
            const variable_list& also_saved, Backward backward) {
  record_saving(name, inputs, outputs, {inputs, outputs, also_saved}, std::move(backward));
}

void record_saving(const char* name, const variable_list& inputs, const variable_list& outputs, const Saved& saved,
                   Backward backward) {
  const auto node = c10::make_intrusive<RecordedNode>(name, std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (const at::Tensor& output : outputs) torch::autograd::set_history(output, node);
  node->save(saved);
}

variable_list gradients_through(const Composition& composition, const variable_list& inputs,
                                const variable_list& gradients) {
  const bool recorded = at::GradMode::is_enabled();
  const at::AutoGradMode on(true);
  // Aliases, because two inputs may be the same tensor; gradients pass through them to what the inputs depend on.
  variable_list aliases = inputs, wanted;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) {
      aliases[i] = inputs[i].view_as(inputs[i]);
      wanted.push_back(aliases[i]);
      places.push_back(i);
    }
  variable_list outputs, output_gradients;
  const variable_list all = composition(aliases);
  for (std::size_t i = 0; i < all.size() && i < gradients.size(); ++i)
    if (gradients[i].defined() && all[i].defined() && all[i].requires_grad()) {
      outputs.push_back(all[i]);
      output_gradients.push_back(gradients[i]);
    }
  variable_list result(inputs.size());
  if (outputs.empty() || wanted.empty()) return result;
  const variable_list found = torch::autograd::grad(outputs, wanted, output_gradients, recorded, recorded, true);
  for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
  return result;
}

variable_list differentiated_by(const char* name, const variable_list& inputs,
                                const std::function<variable_list()>& fused, const Composition& composition) {
  if (has_tangent(inputs)) return composition(inputs);
  variable_list outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = fused();
  }
  if (needs_record(inputs))
    record(name, inputs, outputs, {},
           [composition](const variable_list& saved, const variable_list&, const variable_list& gradients) {
             return gradients_through(composition, saved, gradients);
           });
  return outputs;
}

}  // namespace cogwheel
