// One layer of a transformer: attention, optional attention to another sequence, and feed-forward, each of which adds
// to the residual stream.
//
//   norms before   x = x + attention(norm(x));  x = x + feed_forward(norm(x))   Radford et al. (2019)
//   norms after    x = norm(x + attention(x));  x = norm(x + feed_forward(x))   Vaswani et al. (2017), section 3.1
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/nn/blocks/feed_forward.h"
#include "cogwheel/nn/mixers/attention_layer.h"
#include "cogwheel/nn/mixers/recurrent_layer.h"
#include "cogwheel/nn/norm.h"
#include "cogwheel/nn/token_mixer.h"

namespace cogwheel::nn {

enum class NormPlace { before, after };

struct TransformerBlockOptions {
  AttentionLayerOptions attention;                      // causal or not
  std::optional<RecurrentLayerOptions> recurrent = {};  // in the place of `attention`
  // Attention to the context's memory, between the two others; none in an encoder or a decoder-only model.
  std::optional<AttentionLayerOptions> memory_attention = {};
  FeedForwardOptions feed_forward;
  NormKind norm = NormKind::layer;
  NormPlace norm_place = NormPlace::before;
  bool norm_bias = true;                    // of LayerNorms; attention and feed-forward have options for their biases
  std::optional<double> norm_epsilon = {};  // that of the kind unless given
};

// The stream is x + delta. The next reader adds delta, in the same pass that computes the norm of the sum.
struct ResidualStream {
  at::Tensor x, delta = {};  // delta may be undefined
  at::Tensor total() const { return delta.defined() ? x + delta : x; }
};

class TransformerBlockImpl : public torch::nn::Module {
 public:
  explicit TransformerBlockImpl(const TransformerBlockOptions& options, std::shared_ptr<const Rotary> rotary = nullptr);

  // [B, N, width] each. The context's dropout applies to attention weights and to what is added to the stream; its
  // state comes from `make_state`. Where RecomputedBlocks say so, activations are not kept.
  ResidualStream forward(const ResidualStream& stream, const ForwardContext& context = {});

  // Whether a pass comes to a place where hooks read or replace a value.
  bool has_hook(HookPlace place) const;
  bool only_reads(HookPlace place) const;

  // How the heads map the stream onto itself, gain of the norm apart; none where there are no heads of values.
  std::optional<ValueCircuit> value_circuit() const { return attention_->value_circuit(); }
  const Norm& attention_norm() const { return attention_norm_; }
  const Norm& feed_forward_norm() const { return feed_forward_norm_; }
  const FeedForward& feed_forward() const { return feed_forward_; }

  // Of which each rank has a share where ranks share heads.
  std::vector<DividedParameter> divided_parameters() const;

  bool can_decode() const;
  bool keeps_tokens() const;
  std::unique_ptr<LayerState> make_state(std::int64_t batch, std::int64_t capacity) const;

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);

 private:
  ResidualStream pass(const ResidualStream& stream, const ForwardContext& context);
  HeadInputs head_inputs(const at::Tensor& stream, const ForwardContext& context);

  NormPlace norm_place_;
  Norm attention_norm_;
  std::shared_ptr<TokenMixer> attention_;
  Norm memory_norm_{nullptr};
  std::shared_ptr<TokenMixer> memory_attention_;
  Norm feed_forward_norm_;
  FeedForward feed_forward_;
};
TORCH_MODULE(TransformerBlock);

// The points of a model of such layers, in the order of a pass. `of_model` says which of the model's own places there
// are.
std::vector<HookPoint> points_of(const std::vector<TransformerBlock>& layers,
                                 const std::function<bool(HookPlace)>& of_model);

}  // namespace cogwheel::nn
