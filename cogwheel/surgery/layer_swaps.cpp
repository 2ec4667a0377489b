#include "cogwheel/surgery/layer_swaps.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/packed_loss.h"

namespace cogwheel::surgery {
namespace {

struct Head {
  at::Tensor weight, bias;

  explicit Head(const tasks::language::LanguageModel& model)
      : weight(model->unembedding()), bias(model->unembedding_bias()) {}
  at::Tensor log_probabilities(const at::Tensor& states) const {
    return at::log_softmax(nn::matrix_product(states, weight, bias).to(at::kFloat), 1);
  }
};

struct Pass {
  at::Tensor states;  // [rows, width], of tokens that have a target
  const Head* head;
};

// Sums over rows, which are read in blocks.
struct Sums {
  double loss = 0;
  std::vector<SwapCost> of;
};

Sums compared(const Pass& before, const std::vector<Pass>& passes, const at::Tensor& targets) {
  const std::int64_t vocabulary = before.head->weight.size(0),
                     rows = std::max<std::int64_t>(1, nn::head_logits_bytes / (4 * vocabulary));
  Sums sums{.loss = 0, .of = std::vector<SwapCost>(passes.size())};
  for (std::int64_t first = 0; first < targets.size(0); first += rows) {
    const std::int64_t count = std::min(rows, targets.size(0) - first);
    const at::Tensor places = targets.narrow(0, first, count).unsqueeze(1);
    const auto of_block = [&](const Pass& pass) {
      return pass.head->log_probabilities(pass.states.narrow(0, first, count));
    };
    const auto loss_of = [&](const at::Tensor& log_p) {
      return -log_p.gather(1, places).sum(at::kDouble).item<double>();
    };
    const at::Tensor log_p = of_block(before), p = log_p.exp(), likeliest = log_p.argmax(1);
    sums.loss += loss_of(log_p);
    for (std::size_t index = 0; index < passes.size(); ++index) {
      const at::Tensor log_q = of_block(passes[index]);
      SwapCost& cost = sums.of[index];
      cost.loss += loss_of(log_q);
      cost.divergence += (p * (log_p - log_q)).sum(at::kDouble).item<double>();
      cost.agreement += (log_q.argmax(1) == likeliest).sum().item<double>();
    }
  }
  return sums;
}

}  // namespace

LayerSwaps layer_swaps(tasks::language::LanguageModel& model, tasks::language::LanguageModel& other,
                       const runs::Batch& windows) {
  constexpr std::int64_t tokens_of_pass = 2048;
  const torch::NoGradGuard no_grad;
  const Head head(model), other_head(other);
  const std::size_t layers = model->layers().size();
  LayerSwaps swaps{.tokens = 0, .loss = 0, .layers = std::vector<SwapCost>(layers), .all = {}};
  std::vector<SwapCost> sums(layers + 1);
  const std::int64_t count = windows.inputs.size(0),
                     of_pass = std::max<std::int64_t>(1, tokens_of_pass / windows.inputs.size(1)),
                     passes_in_all = (count + of_pass - 1) / of_pass;
  for (std::int64_t index = 0; index < passes_in_all; ++index) {
    const auto [tokens, given_targets, context, share] =
        tasks::language::pass_of_batch(runs::slice_of(windows, index, passes_in_all));
    const at::Tensor targets = given_targets.flatten(), told = (targets != ignored_target).nonzero().squeeze(1);
    if (told.numel() == 0) continue;
    std::vector<at::Tensor> streams(layers);
    nn::Hooks hooks;
    hooks.read(nn::HookPlace::stream_before, [&](const nn::HookPoint& at, const at::Tensor& stream) {
      streams[static_cast<std::size_t>(at.layer)] = stream;
    });
    const auto rows = [&](const at::Tensor& states) { return states.flatten(0, 1).index_select(0, told); };
    nn::ForwardContext read = context;
    read.hooks = &hooks;
    const Pass before{rows(model->states(tokens, read)), &head};
    std::vector<Pass> passes;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      nn::TransformerBlock block = other->layers()[layer];
      const at::Tensor stream = block(nn::ResidualStream{streams[layer]}, context.at_layer(layer)).total();
      passes.push_back({rows(model->states_from(static_cast<std::int64_t>(layer) + 1, stream, context)), &head});
    }
    passes.push_back({rows(other->states(tokens, context)), &other_head});
    const Sums of = compared(before, passes, targets.index_select(0, told));
    swaps.tokens += told.numel();
    swaps.loss += of.loss;
    for (std::size_t place = 0; place < sums.size(); ++place) {
      sums[place].loss += of.of[place].loss;
      sums[place].divergence += of.of[place].divergence;
      sums[place].agreement += of.of[place].agreement;
    }
  }
  const auto all = static_cast<double>(std::max<std::int64_t>(1, swaps.tokens));
  swaps.loss /= all;
  for (SwapCost& sum : sums) sum = {sum.loss / all, sum.divergence / all, sum.agreement / all};
  swaps.all = sums.back();
  sums.pop_back();
  swaps.layers = std::move(sums);
  return swaps;
}

}  // namespace cogwheel::surgery
