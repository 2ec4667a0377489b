#include "cogwheel/tasks/encoders/encoder.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/packed_sequences.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/tasks/encoders/encoder_stack.h"

namespace cogwheel::tasks::encoders {
namespace {

// The ε of the published weights.
constexpr EncoderBlockForm form{.norm_place = nn::NormPlace::after, .norm_epsilon = 1e-12};

// Where the classifier draws its dropout; layers have parts of their own.
constexpr std::uint64_t classifier_part = std::uint64_t{1} << 32;

nn::Norm make_norm(const EncoderOptions& options) {
  return nn::Norm(nn::NormKind::layer, options.width, true, form.norm_epsilon);
}

}  // namespace

void check(const EncoderOptions& options) {
  using Count = Range<std::int64_t>;
  expect_within("model.vocabulary", options.vocabulary, Count{1, 1 << 24});
  expect_within("model.context", options.context, runs::context_range);
  expect_within("model.segments", options.segments, Count{1, 1 << 10});
  expect_within("model.classes", options.classes, Count{0, 1 << 20});
  check_layers(options);
}

EncoderImpl::EncoderImpl(const EncoderOptions& options) : options_(options) {
  check(options);
  const std::int64_t width = options.width;
  token_embedding_ = nn::new_parameter(*this, "token_embedding", {options.vocabulary, width});
  if (options.position == "learned")
    position_embedding_ = nn::new_parameter(*this, "position_embedding", {options.context, width});
  segment_embedding_ = nn::new_parameter(*this, "segment_embedding", {options.segments, width});
  embedding_norm_ = register_module("embedding_norm", make_norm(options));
  layers_ = register_blocks(*this, options, form);
  if (options.classes > 0) {
    pooler_ = register_module("pooler", nn::Linear(width, width, true));
    classifier_ = register_module("classifier", nn::Linear(width, options.classes, true));
  } else {
    word_transform_ = register_module("word_transform", nn::Linear(width, width, true));
    word_norm_ = register_module("word_norm", make_norm(options));
    word_bias_ = nn::new_parameter(*this, "word_bias", {options.vocabulary});
  }
}

void EncoderImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  initializer.normal(token_embedding_, "token_embedding", encoder_deviation);
  if (position_embedding_.defined()) initializer.normal(position_embedding_, "position_embedding", encoder_deviation);
  initializer.normal(segment_embedding_, "segment_embedding", encoder_deviation);
  embedding_norm_->initialize();
  initialize_blocks(layers_, initializer);
  if (pooler_) {
    pooler_->initialize(initializer, "pooler", encoder_deviation);
    classifier_->initialize(initializer, "classifier", encoder_deviation);
    return;
  }
  word_transform_->initialize(initializer, "word_transform", encoder_deviation);
  word_norm_->initialize();
  const torch::NoGradGuard no_grad;
  word_bias_.zero_();
}

// [N], or [B, N] where the context says so.
at::Tensor EncoderImpl::positions(const at::Tensor& tokens, const nn::ForwardContext& context) const {
  if (context.positions.defined()) return nn::to_device(context.positions, token_embedding_.device());
  if (!context.cu_seqlens) return nn::to_device(at::arange(tokens.size(1), at::kLong), token_embedding_.device());
  const at::Tensor places = nn::places_in_sequences(*context.cu_seqlens, tokens.size(0), tokens.size(1), "encoder");
  if (const auto last = places.numel() > 0 ? places.max().item<std::int64_t>() : 0; last >= options_.context)
    throw UsageError(expected_got("encoder: packed sequences", "up to " + std::to_string(options_.context) + " tokens",
                                  std::to_string(last + 1)));
  return nn::to_device(places, token_embedding_.device());
}

at::Tensor EncoderImpl::states(const at::Tensor& tokens, const at::Tensor& segments,
                               const nn::ForwardContext& context) {
  const bool packed = context.cu_seqlens.has_value();
  if (tokens.dim() != 2 || (!packed && tokens.size(1) > options_.context))
    throw UsageError(expected_got("encoder: tokens", "[batch, up to " + std::to_string(options_.context) + "]",
                                  shape_text(tokens.sizes())));
  const at::Device device = token_embedding_.device();
  at::Tensor x = at::embedding(token_embedding_, nn::to_device(tokens, device));
  if (position_embedding_.defined()) x = x + at::embedding(position_embedding_, positions(tokens, context));
  x = x +
      (segments.defined() ? at::embedding(segment_embedding_, nn::to_device(segments, device)) : segment_embedding_[0]);
  x = embedding_norm_->of_sum(x, {}, true).normed;
  nn::ResidualStream stream{context.hooked(nn::HookPlace::full_embedding, context.dropout.part(0)(x))};
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) stream = layers_[layer](stream, context.at_layer(layer));
  return stream.total();
}

std::vector<nn::HookPoint> EncoderImpl::hook_points() const {
  return nn::points_of(layers_, [](nn::HookPlace place) { return place == nn::HookPlace::full_embedding; });
}

at::Tensor EncoderImpl::word_logits(const at::Tensor& rows) {
  const at::Tensor read = word_norm_(at::gelu(word_transform_(rows)).to(token_embedding_.scalar_type()));
  return nn::matrix_product(read, token_embedding_, word_bias_);
}

at::Tensor EncoderImpl::class_logits(const at::Tensor& first, const nn::Dropout& dropout) {
  const at::Tensor pooled = at::tanh(pooler_(first)).to(token_embedding_.scalar_type());
  return classifier_(dropout.part(classifier_part)(pooled)).to(token_embedding_.scalar_type());
}

Classified EncoderImpl::classify(const at::Tensor& tokens, const at::Tensor& segments,
                                 const nn::ForwardContext& context, bool) {
  return {.logits = class_logits(states(tokens, segments, context).select(1, 0), context.dropout)};
}

std::vector<runs::ConfigField> config_fields(EncoderOptions& options) {
  return encoder_layer_fields(options, {{"model.segments", &options.segments}, {"model.classes", &options.classes}});
}

namespace {

runs::NamedPass pass_of(const runs::RunConfig& config) {
  return runs::named_pass(Encoder(config.model.as<EncoderOptions>()), [](Encoder& model, const runs::PassInputs& inputs,
                                                                         nn::ForwardContext context) {
    if (const at::Tensor lengths = runs::optional_whole_input(inputs, "lengths"); lengths.defined())
      context.lengths = lengths;
    const at::Tensor states = model->states(runs::needed_whole_input(inputs, "tokens"),
                                            runs::optional_whole_input(inputs, "segments"), context);
    return model->options().classes > 0 ? model->class_logits(states.select(1, 0)) : model->word_logits(states);
  });
}

}  // namespace

const runs::ModelEntry& encoder_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<EncoderImpl, EncoderOptions>(
      "encoder", pass_of, {{"tokens"}, {"segments", true}, {"lengths", true}});
  return entry;
}

}  // namespace cogwheel::tasks::encoders
