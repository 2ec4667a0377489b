#include "cogwheel/ops/support/recorded_node.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/ops/support/make_node.h"

namespace cogwheel::ops {
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

// A level of torch.func for one gradient: what an input depends on, at a level around this one or at none, is then told
// apart from what is differentiated here. Nodes run after the level that recorded them has ended (in the pullback that
// vjp returns, and so in jacrev and hessian), where an alias of an input needs no gradient, or is batched and can't.
class Level {
 public:
  explicit Level(bool recorded)
      : number_(at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Grad, std::nullopt, std::nullopt,
                                                       recorded)) {}
  ~Level() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  at::Tensor leaf(const at::Tensor& tensor) const {
    at::Tensor wrapped = at::functorch::makeTensorWrapper(tensor, number_);
    wrapped.set_requires_grad(true);
    return wrapped;
  }
  at::Tensor value_of(const at::Tensor& tensor) const {
    if (!tensor.defined()) return tensor;
    const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
    return wrapper && wrapper->level() == number_ ? wrapper->value() : tensor;
  }

 private:
  std::int64_t number_;
};

bool is_any_wrapped(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& each) {
    return each.defined() && at::functorch::maybeGetTensorWrapper(each) != nullptr;
  });
}

// Tensors as they are at the levels that still run: operators look through others, autograd's questions do not.
variable_list without_ended_levels(variable_list tensors) {
  for (at::Tensor& each : tensors)
    while (each.defined() && at::functorch::isDeadTensorWrapper(each)) each = at::functorch::unwrapIfDead(each);
  return tensors;
}

}  // namespace

bool within_torch_func() { return !at::functorch::getDynamicLayerStack().empty(); }

bool may_record(const variable_list& tensors) {
  return at::GradMode::is_enabled() && (within_torch_func() || needs_record(tensors));
}

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
  const auto node = make_node<RecordedNode>(name, std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (const at::Tensor& output : outputs) torch::autograd::set_history(output, node);
  node->save(saved);
}

variable_list gradients_through(const Composition& composition, const variable_list& inputs,
                                const variable_list& gradients) {
  const bool recorded = at::GradMode::is_enabled();
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) places.push_back(i);
  variable_list result(inputs.size());
  const variable_list now = without_ended_levels(inputs), upstream = without_ended_levels(gradients);
  // Levels are made and ended between calls of operators, not within one.
  const bool has_level = !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) &&
                         (within_torch_func() || is_any_wrapped(inputs) || is_any_wrapped(gradients));
  std::optional<Level> level;
  if (has_level) level.emplace(recorded);
  const at::AutoGradMode on(true);
  // Aliases, because two inputs may be the same tensor; gradients pass through them to what the inputs depend on.
  variable_list aliases = now, wanted;
  for (const std::size_t i : places) {
    aliases[i] = level ? level->leaf(now[i]) : now[i].view_as(now[i]);
    wanted.push_back(aliases[i]);
  }
  variable_list outputs, output_gradients;
  const variable_list all = composition(aliases);
  for (std::size_t i = 0; i < all.size() && i < upstream.size(); ++i)
    if (upstream[i].defined() && all[i].defined() && all[i].requires_grad()) {
      outputs.push_back(all[i]);
      output_gradients.push_back(upstream[i]);
    }
  if (outputs.empty() || wanted.empty()) return result;
  const variable_list found = torch::autograd::grad(outputs, wanted, output_gradients, recorded, recorded, true);
  for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = level ? level->value_of(found[i]) : found[i];
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

}  // namespace cogwheel::ops
