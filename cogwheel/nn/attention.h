// The attention layer: projections around a mechanism of the catalogue.
//
//   row map (softmax, cog, …)   q, k, v = W x;  out(attention(q, k, v))
//   difference of two maps      half as many output heads, each of two sub-heads for q and k and one value twice as
//                               wide, so that the projections keep their shapes; λ, a norm per head, and 1 − λ_init
//   tied (symmetric)            no key projection: K = Q
//   both                        K = Q in each of the two sub-heads
//   dense (polynomial, …)       K = Q: a function of QQᵀ
//
// With rotary positions, queries and keys turn after the projection; sub-heads and tied keys do as all others.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/head_statistics.h"
#include "cogwheel/nn/linear.h"
#include "cogwheel/nn/rotary.h"
#include "cogwheel/ops/attention.h"
#include "cogwheel/ops/key_value_cache.h"

namespace cogwheel {

struct AttentionLayerOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;            // of a plain row map; head_dim = width / heads
  std::int64_t key_value_heads = 0;  // counted as heads are; a divisor of them; 0: as many (grouped queries otherwise)
  std::string mechanism = "softmax";
  std::int64_t layer = 0;  // counted from 0: λ_init of differential attention grows with depth
  // What the first layer counts as in λ_init = 0.8 − 0.6 exp(−0.3 · depth): 0 as in the paper and its code (0.20, 0.36,
  // 0.47, …), or 1 as in the table of S4 (0.36, 0.47, 0.56, …).
  std::int64_t first_lambda_depth = 0;
  bool bias = true;
  bool causal = true;

  std::int64_t used_key_value_heads() const { return key_value_heads == 0 ? heads : key_value_heads; }
};

// Throws UsageError naming the first option that cannot be.
void check(const AttentionLayerOptions& options);

class AttentionLayerImpl : public torch::nn::Module {
 public:
  // `rotary` may be shared by layers; none: no positions here.
  explicit AttentionLayerImpl(const AttentionLayerOptions& options, std::shared_ptr<const Rotary> rotary = nullptr);
  // x [B, N, width] → [B, N, width]. `dropout` falls on the weights of the heads; those of a dense form,
  // which has no dropout, stay whole.
  at::Tensor forward(const at::Tensor& x, const Dropout& dropout = {});

  // Whether a token's output can be had without those of the tokens before it: not of a dense form.
  bool can_decode() const { return !mechanism_.is_matrix(); }
  // For `decode`. Throws UsageError for a layer that cannot.
  KeyValueCache make_cache(std::int64_t batch, std::int64_t capacity) const;
  // The rows of `forward` for the tokens x [B, N, width] that follow those in the cache, which are added to it. The
  // entries of the cache have one length. No gradient reaches keys and values.
  at::Tensor decode(const at::Tensor& x, KeyValueCache& cache);

  // What the heads apply to their values, [B, output heads, N, N]. For pictures.
  at::Tensor weights(const at::Tensor& x);
  // Of each output head, over all of x [B, N, width].
  std::vector<HeadStatistics> statistics(const at::Tensor& x);
  // λ of a difference of two maps, a scalar that the heads share.
  std::optional<at::Tensor> lambda() const;

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);
  static std::int64_t parameter_count(const AttentionLayerOptions& options);

 private:
  struct Heads {
    at::Tensor query, key, value;  // [B, heads, N, head_dim] each
  };
  Heads project(const at::Tensor& x, std::int64_t first_position = 0);
  at::Tensor combine(const at::Tensor& attended);  // [B, output heads, N, width of a value] → [B, N, width]
  AttentionOptions operator_options(const Dropout& dropout = {}) const;

  AttentionLayerOptions options_;
  const Mechanism& mechanism_;
  std::shared_ptr<const Rotary> rotary_;
  std::int64_t head_dim_;
  double lambda_init_ = 0;
  Linear projection_{nullptr}, output_{nullptr};
  // Shared by the heads of the layer.
  at::Tensor lambda_query1_, lambda_key1_, lambda_query2_, lambda_key2_;  // [head_dim]
  at::Tensor head_norm_;                                                  // [2 head_dim]
  MechanismParameters learned_;  // the row map's own scalars, one for each query head: [heads] each
};
TORCH_MODULE(AttentionLayer);

}  // namespace cogwheel
