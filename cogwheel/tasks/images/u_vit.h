// U-ViT, a transformer that predicts the noise in an image: Bao et al., "All are Worth Words: A ViT Backbone for
// Diffusion Models" (2023), section 3. Time, condition and patches are tokens alike; layers of the second half also
// read what the first half made, by long skips. With Cog attention in all layers but the first and the last it is the
// U-ViC of Lv et al., "More Expressive Attention with Negative Weights" (2024).
//
//   x = [time; condition; W patches + b] + positions, or [class; time; patches]
//   x_i = block_i(x_{i−1})                         i = 1 … (L − 1)/2, and the middle one
//   x   = block(W [x; x_i] + b)                    for the others, i falling
//   ε   = convolution 3×3 (pixels(V norm(x) + c))  of the patches
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/tasks/images/u_vit_options.h"

namespace cogwheel::tasks::images {

// [B] → [B, width]: cosines and sines of time · 10000^(−i/(width/2)). Vaswani et al. (2017), section 3.5, in the order
// of Ho, Jain, Abbeel (2020).
at::Tensor time_embedding(const at::Tensor& time, std::int64_t width);

// What the noise is conditioned on; each part as the options have it.
struct NoiseCondition {
  at::Tensor classes = {};  // [B] int64; `vocabulary` itself means none
  at::Tensor vectors = {};  // [B, condition_tokens, condition_width]
};

class UVitImpl : public torch::nn::Module {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit UVitImpl(const UVitOptions& options);

  // N(0, 0.02²), and projection of patches and convolution N(0, 1/(3 inputs)); biases 0, gains 1. Tensors are seeded by
  // their names: runs with the same seed are paired across mechanisms.
  void initialize(std::uint64_t seed);

  // x [B, channels, image_size, image_size], time [B] as the schedule tells a network (NoiseSchedule::network_time) →
  // the noise in x. Throws UsageError for other sizes, and where the condition is not that of the options.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& time, const NoiseCondition& condition = {},
                     const nn::ForwardContext& context = {});
  // Every point where hooks read or replace a value, in the order of a pass.
  std::vector<nn::HookPoint> hook_points() const;
  nn::Dropout dropout(std::uint64_t seed) const { return {options_.dropout, seed}; }

  const UVitOptions& options() const { return options_; }

 private:
  void expect_shapes(const at::Tensor& x, const at::Tensor& time, const NoiseCondition& condition) const;
  at::Tensor embed(const at::Tensor& x, const at::Tensor& time, const NoiseCondition& condition);

  UVitOptions options_;
  nn::Linear patch_{nullptr}, condition_{nullptr};
  at::Tensor class_embedding_;     // [classes + 1, width]: the last one is that of no class
  at::Tensor position_embedding_;  // [tokens, width], where positions are learned
  std::vector<nn::TransformerBlock> layers_;
  std::vector<nn::Linear> skips_;
  nn::Norm final_norm_{nullptr};
  nn::Linear pixels_{nullptr};
  at::Tensor convolution_weight_, convolution_bias_;  // [channels, channels, 3, 3], [channels]
};
TORCH_MODULE(UVit);

}  // namespace cogwheel::tasks::images
