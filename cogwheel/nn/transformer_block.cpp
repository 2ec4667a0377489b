#include "cogwheel/nn/transformer_block.h"

#include <torch/types.h>

#include <utility>

namespace cogwheel {
namespace {

// For a block that attends both to its own sequence and to a memory.
struct BlockState : LayerState {
  std::unique_ptr<LayerState> own, memory;

  BlockState(std::unique_ptr<LayerState> of_tokens, std::unique_ptr<LayerState> of_memory)
      : own(std::move(of_tokens)), memory(std::move(of_memory)) {}
  at::Tensor lengths() const override { return own->lengths(); }
  std::int64_t longest() const override { return own->longest(); }
  void crop(const at::Tensor& kept) override { own->crop(kept); }
  void check_crop(const at::Tensor& kept) const override { own->check_crop(kept); }
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override {
    return std::make_unique<BlockState>(own->fork(entries), memory->fork(entries));
  }
  std::int64_t bytes() const override { return own->bytes() + memory->bytes(); }
};

std::shared_ptr<TokenMixer> make_mixer(const TransformerBlockOptions& options, std::shared_ptr<const Rotary> rotary) {
  if (options.recurrent) return std::make_shared<RecurrentLayerImpl>(*options.recurrent);
  return std::make_shared<AttentionLayerImpl>(options.attention, std::move(rotary));
}

Norm make_norm(const TransformerBlockOptions& options) {
  return Norm(options.norm, options.attention.width, options.norm_bias, options.norm_epsilon);
}

}  // namespace

TransformerBlockImpl::TransformerBlockImpl(const TransformerBlockOptions& options, std::shared_ptr<const Rotary> rotary)
    : norm_place_(options.norm_place),
      attention_norm_(make_norm(options)),
      attention_(make_mixer(options, std::move(rotary))),
      feed_forward_norm_(make_norm(options)),
      feed_forward_(options.feed_forward) {
  register_module("attention_norm", attention_norm_);
  register_module("attention", attention_);
  if (options.memory_attention) {
    AttentionLayerOptions of_memory = *options.memory_attention;
    of_memory.memory = true;
    memory_norm_ = register_module("memory_norm", make_norm(options));
    memory_attention_ = register_module("memory_attention", std::make_shared<AttentionLayerImpl>(of_memory));
  }
  register_module("feed_forward_norm", feed_forward_norm_);
  register_module("feed_forward", feed_forward_);
}

ResidualStream TransformerBlockImpl::forward(const ResidualStream& given, const ForwardContext& context) {
  // What a part reads from the stream and writes back to it.
  const auto add = [&](const ResidualStream& stream, Norm& norm, std::size_t dropout_part, auto&& part) {
    const Dropout dropout = context.dropout.part(dropout_part);
    if (norm_place_ == NormPlace::before) {
      const NormOfSum read = norm->of_sum(stream.x, stream.delta);
      return ResidualStream{read.sum, dropout(part(read.normed))};
    }
    const at::Tensor x = stream.total();
    return ResidualStream{norm->of_sum(x, dropout(part(x)), true).normed};
  };
  auto* const both = memory_attention_ ? static_cast<BlockState*>(context.layer_state) : nullptr;
  const auto mix = [&](TokenMixer& mixer, bool memory, std::size_t dropout_part) {
    ForwardContext inner = context;
    inner.dropout = context.dropout.part(dropout_part);
    inner.site.memory = memory;
    if (both != nullptr) inner.layer_state = (memory ? both->memory : both->own).get();
    return [&mixer, inner](const at::Tensor& x) {
      return inner.tapped(TapPlace::mixer_output, mixer.forward(inner.tapped(TapPlace::mixer_input, x), inner));
    };
  };
  ResidualStream stream = add(given, attention_norm_, 0, mix(*attention_, false, 1));
  if (memory_attention_) stream = add(stream, memory_norm_, 3, mix(*memory_attention_, true, 4));
  stream = add(stream, feed_forward_norm_, 2, [&](const at::Tensor& x) {
    return context.tapped(TapPlace::feed_forward_output,
                          feed_forward_(context.tapped(TapPlace::feed_forward_input, x)));
  });
  if (!context.taps(TapPlace::stream)) return stream;
  return {context.tapped(TapPlace::stream, stream.total())};
}

bool TransformerBlockImpl::can_decode() const { return attention_->can_decode(); }

bool TransformerBlockImpl::keeps_tokens() const { return attention_->keeps_tokens(); }

std::unique_ptr<LayerState> TransformerBlockImpl::make_state(std::int64_t batch, std::int64_t capacity) const {
  auto own = attention_->make_state(batch, capacity);
  if (!memory_attention_) return own;
  return std::make_unique<BlockState>(std::move(own), memory_attention_->make_state(batch, capacity));
}

void TransformerBlockImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                      double standard_deviation, double residual_standard_deviation) {
  attention_norm_->initialize();
  attention_->initialize(initializer, name + ".attention", standard_deviation, residual_standard_deviation);
  if (memory_attention_) {
    memory_norm_->initialize();
    memory_attention_->initialize(initializer, name + ".memory_attention", standard_deviation,
                                  residual_standard_deviation);
  }
  feed_forward_norm_->initialize();
  feed_forward_->initialize(initializer, name + ".feed_forward", standard_deviation, residual_standard_deviation);
}

}  // namespace cogwheel
