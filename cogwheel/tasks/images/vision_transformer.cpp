#include "cogwheel/tasks/images/vision_transformer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/patches.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/tasks/encoders/encoder_stack.h"

namespace cogwheel::tasks::images {

std::int64_t VisionTransformerOptions::tokens() const {
  const std::int64_t side = image_size / patch;
  return side * side + (pooling == "class" ? 1 : 0);
}

void check(const VisionTransformerOptions& options) {
  expect_within("model.vocabulary", options.vocabulary, Range<std::int64_t>{1, 1 << 24});
  encoders::check_image(options.image_size, options.channels, options.patch);
  const std::vector<std::string> poolings(std::begin(pooling_names), std::end(pooling_names));
  if (std::find(poolings.begin(), poolings.end(), options.pooling) == poolings.end())
    throw UsageError(expected_got("model.pooling", expected_names(options.pooling, poolings), options.pooling));
  encoders::check_context(options, options.tokens());
  encoders::check_layers(options);
}

VisionTransformerImpl::VisionTransformerImpl(const VisionTransformerOptions& options) : options_(options) {
  check(options);
  const std::int64_t width = options.width;
  patch_ = register_module("patch", nn::Linear(options.channels * options.patch * options.patch, width, true));
  if (options.pooling == "class") class_token_ = nn::new_parameter(*this, "class_token", {width});
  if (options.position == "learned")
    position_embedding_ = nn::new_parameter(*this, "position_embedding", {options.tokens(), width});
  // The ε of the published weights, which differs from that of other norms.
  const encoders::EncoderBlockForm form{.norm_epsilon = 1e-12};
  layers_ = encoders::register_blocks(*this, options, form);
  final_norm_ = register_module("final_norm", nn::Norm(nn::NormKind::layer, width, true, form.norm_epsilon));
  head_ = register_module("head", nn::Linear(width, options.vocabulary, true));
}

void VisionTransformerImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  const auto inputs = static_cast<double>(options_.channels * options_.patch * options_.patch);
  patch_->initialize(initializer, "patch", 1 / std::sqrt(3 * inputs));
  if (class_token_.defined()) initializer.normal(class_token_, "class_token", encoders::encoder_deviation);
  if (position_embedding_.defined())
    initializer.normal(position_embedding_, "position_embedding", encoders::encoder_deviation);
  encoders::initialize_blocks(layers_, initializer);
  final_norm_->initialize();
  head_->initialize(initializer, "head", encoders::encoder_deviation);
}

at::Tensor VisionTransformerImpl::states(const at::Tensor& images, const nn::ForwardContext& context) {
  const std::int64_t side = options_.image_size;
  if (images.dim() != 4 || images.size(1) != options_.channels || images.size(2) != side || images.size(3) != side)
    throw UsageError(expected_got("vision transformer: images",
                                  shape_text(std::vector<std::int64_t>{images.size(0), options_.channels, side, side}),
                                  shape_text(images.sizes())));
  const at::Tensor placed = nn::to_device(images, head_->parameters().front().device());
  at::Tensor x = patch_(nn::patches_of(placed, options_.patch));
  x = x.to(at::promote_types(x.scalar_type(), head_->parameters().front().scalar_type()));
  if (class_token_.defined()) x = at::cat({class_token_.expand({x.size(0), 1, options_.width}), x}, 1);
  if (position_embedding_.defined()) x = x + position_embedding_;
  nn::ResidualStream stream{context.hooked(nn::HookPlace::full_embedding, context.dropout.part(0)(x))};
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) stream = layers_[layer](stream, context.at_layer(layer));
  return final_norm_->of_sum(stream.x, stream.delta, context, nn::final_norm_hooks).normed;
}

std::vector<nn::HookPoint> VisionTransformerImpl::hook_points() const {
  return nn::points_of(layers_, [](nn::HookPlace place) {
    return place == nn::HookPlace::full_embedding || place == nn::HookPlace::final_norm_scale ||
           place == nn::HookPlace::final_norm;
  });
}

at::Tensor VisionTransformerImpl::forward(const at::Tensor& images, const nn::ForwardContext& context) {
  const at::Tensor all = states(images, context);
  const at::Tensor read = class_token_.defined() ? all.select(1, 0) : all.mean(1);
  return head_(read).to(head_->parameters().front().scalar_type());
}

at::Tensor VisionTransformerImpl::loss(const at::Tensor& images, const at::Tensor& labels, double smoothing,
                                       const nn::ForwardContext& context) {
  return at::cross_entropy_loss(forward(images, context), nn::to_device(labels, head_->parameters().front().device()),
                                {}, at::Reduction::Mean, -100, smoothing);
}

std::vector<runs::ConfigField> config_fields(VisionTransformerOptions& options) {
  return encoders::encoder_layer_fields(options, {{"model.image_size", &options.image_size},
                                                  {"model.channels", &options.channels},
                                                  {"model.patch", &options.patch},
                                                  {"model.pooling", &options.pooling}});
}

namespace {

runs::NamedPass pass_of_images(const runs::RunConfig& config) {
  return runs::named_pass(
      VisionTransformer(config.model.as<VisionTransformerOptions>()),
      [](VisionTransformer& model, const runs::PassInputs& inputs, const nn::ForwardContext& context) {
        return model->forward(runs::needed_input(inputs, "images"), context);
      });
}

}  // namespace

const runs::ModelEntry& vision_transformer_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<VisionTransformerImpl, VisionTransformerOptions>(
      "vision_transformer", pass_of_images, {{"images"}});
  return entry;
}

void stand_in_for_data(VisionTransformerOptions& options) {
  if (options.vocabulary == 0) options.vocabulary = 1;
  encoders::stand_in_for_image(options);
}

}  // namespace cogwheel::tasks::images
