// The attention layer: projections around a mechanism of the catalogue.
//
//   row map (softmax, cog, …)   q, k, v = W x;  out(attention(q, k, v))
//   difference of two maps      half as many output heads, each of two sub-heads for q and k and one value twice as
//                               wide, so that the projections keep their shapes; λ, a norm per head, and 1 − λ_init
//   tied (symmetric)            no key projection: K = Q
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/nn/linear.h"
#include "cogwheel/ops/attention.h"

namespace cogwheel {

struct AttentionLayerOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;  // of a plain row map; head_dim = width / heads
  std::string mechanism = "softmax";
  std::int64_t layer = 0;  // counted from 0: λ_init of differential attention grows with depth
  bool bias = true;
  bool causal = true;
};

// Throws UsageError naming the first option that cannot be.
void check(const AttentionLayerOptions& options);

class AttentionLayerImpl : public torch::nn::Module {
 public:
  explicit AttentionLayerImpl(const AttentionLayerOptions& options);
  at::Tensor forward(const at::Tensor& x);  // [B, N, width] → [B, N, width]

  // What the heads apply to their values, [B, output heads, N, N]. For pictures.
  at::Tensor weights(const at::Tensor& x);
  // λ of a difference of two maps, a scalar.
  std::optional<at::Tensor> lambda() const;

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);
  static std::int64_t parameter_count(const AttentionLayerOptions& options);

 private:
  struct Heads {
    at::Tensor query, key, value;  // [B, heads, N, head_dim] each, views of one projection
  };
  Heads project(const at::Tensor& x);
  AttentionOptions operator_options() const;

  AttentionLayerOptions options_;
  const Mechanism& mechanism_;
  std::int64_t head_dim_;
  double lambda_init_ = 0;
  Linear projection_{nullptr}, output_{nullptr};
  // Shared by the heads of the layer.
  at::Tensor lambda_query1_, lambda_key1_, lambda_query2_, lambda_key2_;  // [head_dim]
  at::Tensor head_norm_;                                                  // [2 head_dim]
};
TORCH_MODULE(AttentionLayer);

}  // namespace cogwheel
