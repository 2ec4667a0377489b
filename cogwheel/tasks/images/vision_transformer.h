// The vision transformer: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021), section 3.1.
//
//   x = [class; W patches + b] + positions
//   x = x + attention(norm(x));  x = x + feed_forward(norm(x))      for each layer
//   logits = head(norm(x) of the class token), or of the mean of the patches, which then have no class token
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/tasks/images/vision_transformer_options.h"

namespace cogwheel::tasks::images {

class VisionTransformerImpl : public torch::nn::Module {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit VisionTransformerImpl(const VisionTransformerOptions& options);

  // N(0, 0.02²), and the projection of patches as a convolution's, N(0, 1/(3 inputs)); biases 0, gains 1. Tensors are
  // seeded by their names: runs with the same seed are paired across mechanisms.
  void initialize(std::uint64_t seed);

  // images [B, channels, image_size, image_size] → [B, tokens, width], after the last norm. Throws UsageError for
  // images of another size.
  at::Tensor states(const at::Tensor& images, const nn::ForwardContext& context = {});
  // → [B, classes].
  at::Tensor forward(const at::Tensor& images, const nn::ForwardContext& context = {});
  // Every point where hooks read or replace a value, in the order of a pass.
  std::vector<nn::HookPoint> hook_points() const;
  nn::Dropout dropout(std::uint64_t seed) const { return {options_.dropout, seed}; }

  // Mean cross-entropy in nats; labels [B] int64.
  at::Tensor loss(const at::Tensor& images, const at::Tensor& labels, double smoothing = 0,
                  const nn::ForwardContext& context = {});

  const VisionTransformerOptions& options() const { return options_; }

 private:
  VisionTransformerOptions options_;
  nn::Linear patch_{nullptr};
  at::Tensor class_token_;         // [width], where the class is read from a token
  at::Tensor position_embedding_;  // [tokens, width], where positions are learned
  std::vector<nn::TransformerBlock> layers_;
  nn::Norm final_norm_{nullptr};
  nn::Linear head_{nullptr};
};
TORCH_MODULE(VisionTransformer);

}  // namespace cogwheel::tasks::images
