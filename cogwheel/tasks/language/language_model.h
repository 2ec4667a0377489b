// The decoder-only language model: one topology, whose norms, positions and feed-forward are options.
//
//   x = token embedding (+ position embedding)
//   x = x + attention(norm(x));  x = x + feed_forward(norm(x))      for each layer
//   logits = head(norm(x))
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/nn/attention_maps.h"
#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::tasks::language {

// The options of a layer, counted from 0. `options` must be checked.
nn::TransformerBlockOptions layer_options(const LanguageModelOptions& options, std::int64_t layer);

class LanguageModelImpl : public torch::nn::Module, public nn::DividesParameters {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit LanguageModelImpl(const LanguageModelOptions& options);

  // N(0, 0.02²); the projections that write into the residual stream N(0, 0.02²/2L); biases 0, gains 1.
  // Each tensor has its own generator, seeded by `seed` and its name, so that two mechanisms start from the same values
  // wherever their tensors agree: runs with the same seed are paired across mechanisms.
  void initialize(std::uint64_t seed);

  // tokens [B, N] int64, N ≤ longest_text(), on any device → logits [B, N, V] on the model's. With a state in the
  // context, the tokens follow those in the state: their logits are those of a pass over the whole text, up to
  // rounding, without computing the earlier tokens again. Throws UsageError where a text is longer.
  at::Tensor forward(const at::Tensor& tokens, const nn::ForwardContext& context = {});
  // The logits of the last token of each entry alone, [B, V]: the head is the largest product of a pass over few
  // tokens.
  at::Tensor last_logits(const at::Tensor& tokens, const nn::ForwardContext& context = {});
  // What the layers from `layer` on and the head make of the residual stream before it, [B, N, width]: the rest of a
  // pass whose earlier layers are known. `layer` may be the number of layers. Without a state.
  at::Tensor forward_from(std::int64_t layer, const at::Tensor& stream, const nn::ForwardContext& context = {});
  // What the head reads, [B, N, width], of a pass and of the rest of one.
  at::Tensor states(const at::Tensor& tokens, const nn::ForwardContext& context = {});
  at::Tensor states_from(std::int64_t layer, const at::Tensor& stream, const nn::ForwardContext& context = {});
  // The dropout of the options, for a context in training: the same seed drops the same elements.
  nn::Dropout dropout(std::uint64_t seed) const { return {options_.dropout, seed}; }

  // Every point where hooks read or replace a value, in the order of a pass.
  std::vector<nn::HookPoint> hook_points() const;

  // Whether the model can decode with a state: not where a layer is a dense form, a function of the whole score matrix.
  bool can_decode() const;
  // The tokens of the longest text: the context, or any number where no layer keeps keys and no table positions.
  std::int64_t longest_text() const;
  // Throws UsageError where a text cannot go on beyond the context by forgetting earlier tokens: where positions are
  // learned, and where a law has the context as its horizon.
  void expect_endless() const;
  // Throws UsageError where `keys` is narrow and no layer keeps any while it decodes.
  void expect_kept_keys(nn::NumberType keys) const;
  // An empty state for up to that many tokens of `batch` texts, whose keys and values are kept as `keys`, which are
  // expected.
  nn::ModelState make_state(std::int64_t batch, nn::NumberType keys = nn::NumberType::float32) const;

  // What the head reads of the tokens whose target, [B, N], is not `ignored_target`, [n, width], and these targets,
  // [n], on the model's device.
  struct TargetRows {
    at::Tensor states, targets;
  };
  TargetRows target_rows(const at::Tensor& tokens, const at::Tensor& targets, const nn::ForwardContext& context = {});

  // The mean cross-entropy in nats of the targets, [B, N], that are not `ignored_target`; 0 where there are none.
  // Without hooks the logits are made and read in blocks of rows (nn/losses/token_loss.h). Of ranks that share heads
  // (ForwardContext::heads), this one's part of it.
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets, const nn::ForwardContext& context = {});

  // Those of the layers, and the rows of tokens in embedding and head.
  std::vector<nn::DividedParameter> divided_parameters() const override;

  const LanguageModelOptions& options() const { return options_; }
  const std::vector<nn::TransformerBlock>& layers() const { return layers_; }
  const at::Tensor& token_embedding() const { return token_embedding_; }                        // [vocabulary, width]
  const at::Tensor& unembedding() const { return head_ ? head_->weight() : token_embedding_; }  // [vocabulary, width]
  at::Tensor unembedding_bias() const { return head_ ? head_->bias() : at::Tensor(); }          // or undefined
  const nn::Norm& final_norm() const { return final_norm_; }

 private:
  at::Tensor pass(const at::Tensor& tokens, const nn::ForwardContext& context, bool last_only);
  nn::ForwardContext resolved(const at::Tensor& tokens, const nn::ForwardContext& context) const;
  at::Tensor embed(const at::Tensor& tokens, const nn::ForwardContext& context);
  // Whether the model has the rows of some tokens alone, of ranks that share it.
  bool has_share_of_vocabulary() const { return token_embedding_.size(0) < options_.vocabulary; }
  nn::ResidualStream stream(const at::Tensor& tokens, const nn::ForwardContext& context);
  nn::ResidualStream stream_from(std::int64_t layer, const at::Tensor& stream, const nn::ForwardContext& context);
  at::Tensor head_input(const nn::ResidualStream& stream, const nn::ForwardContext& context);
  at::Tensor logits(const nn::ResidualStream& stream, const nn::ForwardContext& context);
  at::Tensor no_loss(const at::Tensor& states) const;  // of states without targets

  LanguageModelOptions options_;
  at::Tensor token_embedding_;     // [vocabulary, width]
  at::Tensor position_embedding_;  // [context, width], where positions are learned
  std::vector<nn::TransformerBlock> layers_;
  nn::Norm final_norm_{nullptr};
  nn::Linear head_{nullptr};  // empty where the head is tied
};
TORCH_MODULE(LanguageModel);

// The maps of a text (nn/attention_maps.h).
nn::WeightsOfHeads attention_maps(LanguageModel& model, std::span<const Token> text);

}  // namespace cogwheel::tasks::language
