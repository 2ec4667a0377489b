#include "cogwheel/models/decoder_layer.h"

#include <torch/types.h>

namespace cogwheel {

DecoderLayerImpl::DecoderLayerImpl(const AttentionLayerOptions& attention, std::int64_t feed_forward)
    : attention_norm_(attention.width, attention.bias),
      attention_(attention),
      feed_forward_norm_(attention.width, attention.bias),
      feed_forward_(attention.width, feed_forward, attention.bias) {
  register_module("attention_norm", attention_norm_);
  register_module("attention", attention_);
  register_module("feed_forward_norm", feed_forward_norm_);
  register_module("feed_forward", feed_forward_);
}

at::Tensor DecoderLayerImpl::forward(const at::Tensor& x) {
  const at::Tensor attended = x + attention_(attention_norm_(x));
  return attended + feed_forward_(feed_forward_norm_(attended));
}

at::Tensor DecoderLayerImpl::attention_weights(const at::Tensor& x) { return attention_->weights(attention_norm_(x)); }

void DecoderLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                  double standard_deviation, double residual_standard_deviation) {
  attention_norm_->initialize();
  attention_->initialize(initializer, name + ".attention", standard_deviation, residual_standard_deviation);
  feed_forward_norm_->initialize();
  feed_forward_->initialize(initializer, name + ".feed_forward", standard_deviation, residual_standard_deviation);
}

std::int64_t DecoderLayerImpl::parameter_count(const AttentionLayerOptions& attention, std::int64_t feed_forward) {
  return 2 * LayerNormImpl::parameter_count(attention.width, attention.bias) +
         AttentionLayerImpl::parameter_count(attention) +
         FeedForwardImpl::parameter_count(attention.width, feed_forward, attention.bias);
}

}  // namespace cogwheel
