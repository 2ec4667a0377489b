// An encoder and a decoder of attention layers: Vaswani et al., "Attention Is All You Need" (2017), with norms before
// each part as in Radford et al. (2019), and one mechanism in all attention.
//
//   x = E[source] + P_s;   x = x + attention(norm(x));  x = x + feed_forward(norm(x))       for each layer; every token
//                          of a source sees every other
//   h = norm(x)
//   y = E[target] + P_t;   y = y + attention(norm(y));  y = y + attention(norm(y), h);  y = y + feed_forward(norm(y))
//                          a token sees itself and those before it, and all of h
//   logits = E norm(y) + b
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/tasks/translation/transformer_options.h"
#include "cogwheel/tasks/translation/translator.h"

namespace cogwheel::tasks::translation {

// The options of a layer of either stack, counted from 0. `options` must be checked.
nn::TransformerBlockOptions encoder_layer(const TransformerOptions& options, std::int64_t layer);
nn::TransformerBlockOptions decoder_layer(const TransformerOptions& options, std::int64_t layer);

class TransformerImpl : public Translator {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit TransformerImpl(const TransformerOptions& options);
  // As a language model: N(0, 0.02²), what writes into a residual stream less by the root of how many do; biases 0,
  // gains 1. Tensors are seeded by their names.
  void initialize(std::uint64_t seed) override;

  // h, [B, S, width], of tokens [B, S] int64 and lengths [B] int64. Hooks and dropout number the layers of both stacks,
  // the encoder's first.
  at::Tensor encode(const at::Tensor& tokens, const at::Tensor& lengths, const nn::ForwardContext& context = {});
  // norm(y) [B, T, width] of the target's tokens so far, inputs [B, T]. The context has h and the lengths of the
  // sources as its memory. With `state` the inputs follow those in the state, and h is needed once.
  at::Tensor decode(const at::Tensor& inputs, const nn::ForwardContext& context, const nn::ModelState* state = nullptr);
  at::Tensor logits(const at::Tensor& x);  // [..., width] → [..., V], float32, or as the weights
  // Of all tokens at once, [B, T, V].
  at::Tensor forward(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                     const nn::ForwardContext& context = {});

  std::unique_ptr<State> start(const at::Tensor& tokens, const at::Tensor& lengths) override;
  at::Tensor next_logits(State& state, const at::Tensor& tokens) override;
  at::Tensor loss(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                  const at::Tensor& targets, double smoothing = 0, const nn::Dropout& dropout = {}) override;
  std::int64_t aligning_layers() const override { return options_.layers; }
  // The next to last: Garg et al., "Jointly Learning to Align and Translate with Transformer Models" (2019), section 4.
  std::int64_t aligning_layer() const override { return options_.layers > 1 ? options_.layers - 2 : 0; }
  at::Tensor source_weights(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                            std::optional<std::int64_t> layer = {}) override;
  std::string alignment_title() const override;

  nn::Dropout dropout(std::uint64_t seed) const override { return {options_.dropout, seed}; }
  std::int64_t context() const override { return options_.context; }
  std::int64_t longest() const override { return options_.context; }
  const TransformerOptions& options() const { return options_; }
  // Every point where hooks read or replace a value.
  std::vector<nn::HookPoint> hook_points() const;

 private:
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& embedding, const at::Tensor& positions,
                   std::int64_t first) const;
  nn::ForwardContext at_layer(const nn::ForwardContext& context, std::int64_t layer) const;
  at::Tensor product_of_logits(const at::Tensor& x);  // bfloat16 where products are
  nn::ModelState make_state(std::int64_t batch) const;

  TransformerOptions options_;
  at::Tensor embedding_, target_embedding_, output_;  // [V, width]; the last two only where they are not tied
  at::Tensor output_bias_;
  at::Tensor source_positions_, target_positions_;  // [context, width], where positions are learned
  std::vector<nn::TransformerBlock> encoder_, decoder_;
  nn::Norm encoder_norm_{nullptr}, decoder_norm_{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace cogwheel::tasks::translation
