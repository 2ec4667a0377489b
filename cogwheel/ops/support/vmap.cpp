// torch.func.vmap over operators with kernels: a call for each entry. PyTorch's own loop refuses a batch of none, which
// jacrev makes of an output without numbers, and warns of each operator.
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace cogwheel::ops {
namespace {

struct VmapArgument {
  c10::IValue value;
  std::optional<std::int64_t> axis;  // of the entries
};

// That of one entry; where there is none, what says its shape.
c10::IValue of_entry(const VmapArgument& argument, std::int64_t entry, std::int64_t entries) {
  if (!argument.value.isTensor() || !argument.value.toTensor().defined()) return argument.value;
  const at::Tensor& tensor = argument.value.toTensor();
  if (entries > 0) return argument.axis ? tensor.select(*argument.axis, entry) : tensor;
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  if (argument.axis) sizes.erase(sizes.begin() + *argument.axis);
  return at::empty(sizes, tensor.options().device(at::kMeta));
}

at::Tensor of_all_entries(const std::vector<at::Tensor>& outputs, std::int64_t entries, at::Device device) {
  if (entries > 0) return at::stack(outputs);
  std::vector<std::int64_t> sizes = outputs.front().sizes().vec();
  sizes.insert(sizes.begin(), 0);
  return at::empty(sizes, outputs.front().options().device(device));
}

void call_for_each_entry(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard unbatched(c10::DispatchKey::FuncTorchBatched);
  const std::int64_t level = at::functorch::maybeCurrentDynamicLayer()->layerId();
  const std::size_t count = op.schema().arguments().size();
  std::vector<VmapArgument> arguments;
  std::int64_t entries = 0;
  at::Device device = at::kCPU;
  bool is_batched = false;
  for (const c10::IValue& given : torch::jit::last(*stack, count)) {
    VmapArgument& argument = arguments.emplace_back(VmapArgument{given, {}});
    if (!given.isTensor() || !given.toTensor().defined()) continue;
    std::tie(argument.value, argument.axis) = at::functorch::unwrapTensorAtLevel(given.toTensor(), level);
    if (!argument.axis) continue;
    is_batched = true;
    entries = argument.value.toTensor().size(*argument.axis);
    device = argument.value.toTensor().device();
  }
  if (!is_batched) return op.callBoxed(*stack);  // batched at a level around this one
  torch::jit::drop(*stack, count);
  std::vector<std::vector<at::Tensor>> outputs(op.schema().returns().size());
  for (std::int64_t entry = 0; entry < std::max<std::int64_t>(entries, 1); ++entry) {
    torch::jit::Stack one;
    for (const VmapArgument& argument : arguments) one.push_back(of_entry(argument, entry, entries));
    op.callBoxed(one);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(one[i].toTensor());
  }
  for (const std::vector<at::Tensor>& output : outputs) {
    if (output.front().defined())
      stack->emplace_back(at::functorch::makeBatched(of_all_entries(output, entries, device), 0, level));
    else
      stack->emplace_back(at::Tensor());
  }
}

constexpr const char* vmapped[] = {"delta_walk",
                                   "delta_walk_backward",
                                   "dropout",
                                   "dropout_factors",
                                   "elu_plus_one",
                                   "exponential_gates",
                                   "gated_cell",
                                   "gated_cell_backward",
                                   "gated_sequence",
                                   "gated_sequence_backward",
                                   "matrix_product",
                                   "mixture_statistics",
                                   "norm_of_sum",
                                   "norm_of_sum_backward",
                                   "normalized_sums",
                                   "normalized_sums_backward",
                                   "pairwise",
                                   "pairwise_backward",
                                   "projected_rows",
                                   "rotary",
                                   "row_map",
                                   "soft_window",
                                   "soft_window_backward",
                                   "state_space",
                                   "state_space_backward",
                                   "subtract_sub_heads",
                                   "subtract_sub_heads_backward",
                                   "token_walk",
                                   "token_walk_backward",
                                   "turned_rows",
                                   "turned_rows_backward",
                                   "weighted_rows",
                                   "weighted_rows_backward"};

}  // namespace

TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) {
  for (const char* name : vmapped)
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&call_for_each_entry>());
}

}  // namespace cogwheel::ops
