#include "cogwheel/models/decoder_layer.h"

#include <torch/types.h>

namespace cogwheel {

DecoderLayerImpl::DecoderLayerImpl(const DecoderLayerOptions& options, std::shared_ptr<const Rotary> rotary)
    : attention_norm_(options.norm, options.attention.width, options.attention.bias),
      attention_(options.attention, std::move(rotary)),
      feed_forward_norm_(options.norm, options.attention.width, options.attention.bias),
      feed_forward_(options.feed_forward) {
  register_module("attention_norm", attention_norm_);
  register_module("attention", attention_);
  register_module("feed_forward_norm", feed_forward_norm_);
  register_module("feed_forward", feed_forward_);
}

ResidualStream DecoderLayerImpl::forward(const ResidualStream& stream, const Dropout& dropout) {
  const NormOfSum before = attention_norm_->of_sum(stream.x, stream.delta);
  const at::Tensor attended = dropout.part(0)(attention_(before.normed, dropout.part(1)));
  const NormOfSum between = feed_forward_norm_->of_sum(before.sum, attended);
  return {between.sum, dropout.part(2)(feed_forward_(between.normed))};
}

ResidualStream DecoderLayerImpl::decode(const ResidualStream& stream, KeyValueCache& cache) {
  const NormOfSum before = attention_norm_->of_sum(stream.x, stream.delta);
  const NormOfSum between = feed_forward_norm_->of_sum(before.sum, attention_->decode(before.normed, cache));
  return {between.sum, feed_forward_(between.normed)};
}

at::Tensor DecoderLayerImpl::attention_weights(const ResidualStream& stream) {
  return attention_->weights(attention_norm_->of_sum(stream.x, stream.delta).normed);
}

std::vector<HeadStatistics> DecoderLayerImpl::head_statistics(const ResidualStream& stream) {
  return attention_->statistics(attention_norm_->of_sum(stream.x, stream.delta).normed);
}

void DecoderLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                  double standard_deviation, double residual_standard_deviation) {
  attention_norm_->initialize();
  attention_->initialize(initializer, name + ".attention", standard_deviation, residual_standard_deviation);
  feed_forward_norm_->initialize();
  feed_forward_->initialize(initializer, name + ".feed_forward", standard_deviation, residual_standard_deviation);
}

std::int64_t DecoderLayerImpl::parameter_count(const DecoderLayerOptions& options) {
  return 2 * NormImpl::parameter_count(options.norm, options.attention.width, options.attention.bias) +
         AttentionLayerImpl::parameter_count(options.attention) +
         FeedForwardImpl::parameter_count(options.feed_forward);
}

}  // namespace cogwheel
