// One layer of a decoder: attention and feed-forward, each of which reads a normalised copy of the residual stream and
// adds to it.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/nn/attention.h"
#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/feed_forward.h"
#include "cogwheel/nn/norm.h"

namespace cogwheel {

struct DecoderLayerOptions {
  AttentionLayerOptions attention;
  FeedForwardOptions feed_forward;
  NormKind norm = NormKind::layer;
};

// The stream is x + delta. Who reads it next adds what the last one left, in the pass that norms the sum.
struct ResidualStream {
  at::Tensor x, delta = {};  // delta may be undefined
};

class DecoderLayerImpl : public torch::nn::Module {
 public:
  explicit DecoderLayerImpl(const DecoderLayerOptions& options, std::shared_ptr<const Rotary> rotary = nullptr);

  // [B, N, width] each. `dropout` falls on the weights of attention and on what is added to the stream.
  ResidualStream forward(const ResidualStream& stream, const Dropout& dropout = {});

  // The same for the tokens that follow those in the cache of the attention, which are added to it.
  ResidualStream decode(const ResidualStream& stream, KeyValueCache& cache);
  const AttentionLayer& attention() const { return attention_; }

  at::Tensor attention_weights(const ResidualStream& stream);  // [B, output heads, N, N]
  std::vector<HeadStatistics> head_statistics(const ResidualStream& stream);

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);
  static std::int64_t parameter_count(const DecoderLayerOptions& options);

 private:
  Norm attention_norm_;
  AttentionLayer attention_;
  Norm feed_forward_norm_;
  FeedForward feed_forward_;
};
TORCH_MODULE(DecoderLayer);

}  // namespace cogwheel
