// The decoder-only language model: one topology, whose norms, positions and feed-forward are options.
//
//   x = token embedding (+ position embedding)
//   x = x + attention(norm(x));  x = x + feed_forward(norm(x))      for each layer
//   logits = head(norm(x))
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cogwheel/models/decoder_layer.h"
#include "cogwheel/models/language_model_options.h"

namespace cogwheel {

// What a layer, counted from 0, and every norm are made with. Of checked options.
DecoderLayerOptions layer_options(const LanguageModelOptions& options, std::int64_t layer);
NormKind norm_kind(const LanguageModelOptions& options);

// A text seen by a model: its loss, and what every head did, [layers][output heads].
struct Observation {
  at::Tensor loss;
  StatisticsOfHeads heads;
};

class LanguageModelImpl : public torch::nn::Module {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit LanguageModelImpl(const LanguageModelOptions& options);

  // N(0, 0.02²); the projections that write into the residual stream N(0, 0.02²/2L); biases 0, gains 1.
  // Each tensor draws from a generator of its own, seeded by `seed` and its name, so that two mechanisms start from the
  // same values wherever their tensors agree: seeds are paired between mechanisms, not only within one.
  void initialize(std::uint64_t seed);

  // tokens [B, N] int64, N ≤ context → logits [B, N, V]. Without a seed nothing is dropped, as in evaluation; with one,
  // the options' dropout applies, and the same seed drops the same elements.
  at::Tensor forward(const at::Tensor& tokens, std::optional<std::uint64_t> dropout_seed = {});

  // Whether `decode` serves: not where a layer is a dense form, a function of the whole score matrix.
  bool can_decode() const;
  // One empty cache for each layer, for up to `context` tokens of `batch` texts.
  std::vector<KeyValueCache> make_caches(std::int64_t batch) const;
  // The logits [B, N, V] of the tokens [B, N] that follow those in the caches, which are added to them: what `forward`
  // gives for the whole text, up to rounding, without computing the earlier tokens again. Throws UsageError where the
  // text outgrows the context.
  at::Tensor decode(const at::Tensor& tokens, std::vector<KeyValueCache>& caches);

  // Mean cross-entropy in nats per token; targets [B, N].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets, std::optional<std::uint64_t> dropout_seed = {});

  // Per layer the weights that its heads apply to the values, [B, H, N, N]; differential: the effective difference,
  // over its halved heads. For pictures.
  std::vector<at::Tensor> attention_maps(const at::Tensor& tokens);

  // What every head does with these tokens, [layers][output heads]; nothing of size N² is made.
  StatisticsOfHeads head_statistics(const at::Tensor& tokens);
  // Both of a text in one pass: `loss`, to the bit, and `head_statistics`. Without gradients.
  Observation observe(const at::Tensor& tokens, const at::Tensor& targets);

  const LanguageModelOptions& options() const { return options_; }

 private:
  // Passes the stream through every layer.
  StatisticsOfHeads pass_observed(ResidualStream& stream);
  at::Tensor embed(const at::Tensor& tokens, std::int64_t first_position = 0);
  at::Tensor logits(const ResidualStream& stream);

  LanguageModelOptions options_;
  at::Tensor token_embedding_;     // [vocabulary, width]
  at::Tensor position_embedding_;  // [context, width], where positions are learned
  std::vector<DecoderLayer> layers_;
  Norm final_norm_{nullptr};
  Linear head_{nullptr};  // empty where the head is tied
};
TORCH_MODULE(LanguageModel);

}  // namespace cogwheel
