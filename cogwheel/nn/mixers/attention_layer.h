// The attention layer: projections around a mechanism of the catalogue.
//
//   row map (softmax, cog, …)   q, k, v = W x;  out(attention(q, k, v))
//   difference of two maps      half as many output heads, each of two sub-heads for q and k and one value twice as
//                               wide, so that the projections keep their shapes; λ, a norm per head, and 1 − λ_init
//   tied (symmetric)            no key projection: K = Q
//   both                        K = Q in each of the two sub-heads
//   dense (polynomial, …)       K = Q: a function of the matrix QQᵀ
//
// With rotary positions, queries and keys are rotated after the projection, sub-heads and tied keys included. With
// norms of queries and keys, each head is normed before that, as in Qwen 3; Dehghani et al., "Scaling Vision
// Transformers to 22 Billion Parameters" (2023), section 2. ALiBi lowers scores with the distance instead: Press et
// al., "Train Short, Test Long" (2022).
//
// A layer that attends to a memory (an encoder's output, say) computes keys and values from that instead of x, by a
// separate projection: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3.
#pragma once
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/nn/mixers/attention_layer_options.h"
#include "cogwheel/nn/rotary.h"
#include "cogwheel/nn/token_mixer.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::nn {

class AttentionLayerImpl : public TokenMixer {
 public:
  // `rotary` may be shared by layers; null: no rotary positions.
  explicit AttentionLayerImpl(const AttentionLayerOptions& options, std::shared_ptr<const Rotary> rotary = nullptr);
  // The context's dropout applies to the attention weights, except those of a dense form, which has no dropout.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context = {}) override;

  bool has_hook(HookPlace place) const override;
  bool only_reads(HookPlace place) const override;
  HeadCounts head_counts() const override;
  std::optional<ValueCircuit> value_circuit() const override;
  std::vector<Projection> projections() const override;               // none of a layer that attends to a memory
  std::vector<DividedParameter> divided_parameters() const override;  // none of such a layer
  std::optional<RotaryLayout> rotary_layout() const override;
  std::vector<std::string> take_layout(RotaryLayout given) override;

  // False for a dense form, which is a function of the whole score matrix, and where tokens see later ones.
  bool can_decode() const override;
  std::unique_ptr<LayerState> make_state(std::int64_t batch, std::int64_t capacity) const override;
  // Whether heads of a wider layer are wider, not more of them.
  bool head_dim_follows_width() const { return options_.head_dim == 0; }
  // λ = λ1 − λ2 + λ_init of a difference of two maps: one scalar for all heads. None of other mechanisms.
  struct Lambda {
    at::Tensor first, second, whole;
  };
  std::optional<Lambda> lambda() const;

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation) override;

 private:
  struct Heads {
    at::Tensor query, key, value;  // [B, heads, tokens, head_dim] each
  };
  struct Projected {
    at::Tensor query, key, value;  // [B, tokens, heads, head_dim] each, before positions; key undefined where tied
    at::Tensor key_change = {};    // to be added to tied keys
  };
  Projected project_heads(const at::Tensor& x, const ForwardContext& context);
  // [..., head_dim], as they are where there is no norm.
  at::Tensor normed_query(const at::Tensor& heads) const;
  at::Tensor normed_key(const at::Tensor& heads) const;
  Heads project(const at::Tensor& x, const ForwardContext& context);
  Heads project_memory(const at::Tensor& x, const ForwardContext& context);
  at::Tensor attend(Heads heads, const ForwardContext& context);  // → [B, output heads, N, width of a value]
  at::Tensor combine(const at::Tensor& attended, const ForwardContext& context);  // → [B, N, width]
  // `ranks`: null, or those that share the heads.
  ops::AttentionOptions operator_options(const Dropout& dropout, const SharedHeads* ranks) const;

  AttentionLayerOptions options_;
  const Mechanism& mechanism_;
  std::shared_ptr<const Rotary> rotary_;
  std::int64_t head_dim_;
  double lambda_init_ = 0;
  Linear projection_{nullptr};         // in a layer that attends to a memory: queries only
  Linear memory_projection_{nullptr};  // keys and values; only in such a layer
  Linear output_{nullptr};
  at::Tensor query_norm_, key_norm_;  // [head_dim], gains; keys that are the queries have the queries' norm
  // Shared by the heads of the layer.
  at::Tensor lambda_query1_, lambda_key1_, lambda_query2_, lambda_key2_;  // [head_dim]
  at::Tensor head_norm_;                                                  // [2 head_dim]
  ops::MechanismParameters learned_;            // the scalars of the row map, one for each query head: [heads] each
  at::Tensor score_weight_, score_projection_;  // of a score that has them (ops/pairwise/scores.h)
  at::Tensor alibi_;                            // [output heads], where there is one
};
TORCH_MODULE(AttentionLayer);

}  // namespace cogwheel::nn
