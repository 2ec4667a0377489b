// One layer of a decoder: attention and feed-forward, each of which reads a normalised copy of the residual stream and
// adds to it.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "cogwheel/nn/attention.h"
#include "cogwheel/nn/feed_forward.h"
#include "cogwheel/nn/norm.h"

namespace cogwheel {

class DecoderLayerImpl : public torch::nn::Module {
 public:
  DecoderLayerImpl(const AttentionLayerOptions& attention, std::int64_t feed_forward);
  at::Tensor forward(const at::Tensor& x);  // [B, N, width] → [B, N, width]

  at::Tensor attention_weights(const at::Tensor& x);  // [B, output heads, N, N]

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);
  static std::int64_t parameter_count(const AttentionLayerOptions& attention, std::int64_t feed_forward);

 private:
  LayerNorm attention_norm_;
  AttentionLayer attention_;
  LayerNorm feed_forward_norm_;
  FeedForward feed_forward_;
};
TORCH_MODULE(DecoderLayer);

}  // namespace cogwheel
