#include "cogwheel/nn/blocks/recomputed_blocks.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::nn {
namespace {

thread_local std::int64_t recomputed_every = 0;

ops::variable_list inputs_of(const ResidualStream& stream, const ForwardContext& context) {
  return {stream.x, stream.delta, context.memory};
}

}  // namespace

RecomputedBlocks::RecomputedBlocks(std::int64_t every) : before_(std::exchange(recomputed_every, every)) {}
RecomputedBlocks::~RecomputedBlocks() { recomputed_every = before_; }

bool RecomputedBlocks::include(const ForwardContext& context) {
  return recomputed_every > 0 && at::GradMode::is_enabled() && context.hooks == nullptr &&
         context.layer_state == nullptr && context.site.layer >= 0 &&
         context.site.layer % recomputed_every == recomputed_every - 1;
}

ResidualStream recomputed(const ResidualStream& stream, const ForwardContext& context, const BlockPass& pass) {
  const ops::variable_list inputs = inputs_of(stream, context);
  if (!ops::needs_record(inputs)) return pass(stream, context);
  ResidualStream made;
  {
    const torch::NoGradGuard no_grad;
    made = pass(stream, context);
  }
  ForwardContext kept = context;
  kept.memory = at::Tensor();
  ops::variable_list outputs{made.x};
  if (made.delta.defined()) outputs.push_back(made.delta);
  ops::record_saving(
      "RecomputedBlockBackward", inputs, outputs, {.inputs = inputs, .outputs = {}, .constants = {}},
      [kept, pass, narrow = BFloat16Products::enabled()](const ops::variable_list& saved, const ops::variable_list&,
                                                         const ops::variable_list& gradients) {
        const torch::AutoGradMode grad(true);
        const BFloat16Products products(narrow);
        const RecomputedBlocks none(0);
        ops::variable_list leaves;
        for (const at::Tensor& input : saved)
          leaves.push_back(input.defined() ? input.detach().requires_grad_(input.requires_grad()) : at::Tensor());
        ForwardContext again = kept;
        again.memory = leaves[2];
        const ResidualStream made_again = pass({leaves[0], leaves[1]}, again);
        ops::variable_list of, outer;
        const ops::variable_list results{made_again.x, made_again.delta};
        for (std::size_t index = 0; index < gradients.size(); ++index)
          if (gradients[index].defined()) of.push_back(results[index]), outer.push_back(gradients[index]);
        torch::autograd::backward(of, outer);
        ops::variable_list result;
        for (const at::Tensor& leaf : leaves) result.push_back(leaf.defined() ? leaf.grad() : at::Tensor());
        return result;
      });
  return {outputs[0], outputs.size() > 1 ? outputs[1] : at::Tensor()};
}

}  // namespace cogwheel::nn
