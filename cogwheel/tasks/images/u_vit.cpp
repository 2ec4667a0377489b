#include "cogwheel/tasks/images/u_vit.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/patches.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/tasks/encoders/encoder_stack.h"
#include "cogwheel/tasks/images/diffusion/noise_schedule.h"
#include "cogwheel/tasks/images/diffusion/prediction.h"

namespace cogwheel::tasks::images {

std::int64_t UVitOptions::tokens() const {
  const std::int64_t side = image_size / patch;
  return side * side + extra_tokens();
}

void check(const UVitOptions& options) {
  using Count = Range<std::int64_t>;
  expect_within("model.vocabulary", options.vocabulary, Count{0, 1 << 24});
  expect_within("model.condition_width", options.condition_width, Count{0, 1 << 20});
  expect_within("model.condition_tokens", options.condition_tokens, Count{0, runs::context_range.max});
  if ((options.condition_width > 0) != (options.condition_tokens > 0))
    throw UsageError(
        expected_got("model.condition_tokens",
                     options.condition_width > 0 ? "at least 1 beside condition_width" : "0 without condition_width",
                     std::to_string(options.condition_tokens)));
  if (options.vocabulary > 0 && options.condition_width > 0)
    throw UsageError(
        expected_got("model.condition_width", "0 beside classes", std::to_string(options.condition_width)));
  encoders::check_image(options.image_size, options.channels, options.patch);
  encoders::check_context(options, options.tokens());
  encoders::check_layers(options);
  if (options.layers % 2 == 0)
    throw UsageError(expected_got("model.layers", "an odd number: as many before the middle one as after it",
                                  std::to_string(options.layers)));
  if (options.width % 2 != 0)
    throw UsageError(
        expected_got("model.width", "an even number, for cosines and sines", std::to_string(options.width)));
}

at::Tensor time_embedding(const at::Tensor& time, std::int64_t width) {
  const std::int64_t half = width / 2;
  const at::Tensor frequencies =
      (at::arange(half, time.options().dtype(at::kFloat)) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  const at::Tensor angles = time.to(at::kFloat).unsqueeze(1) * frequencies;
  return at::cat({angles.cos(), angles.sin()}, 1);
}

UVitImpl::UVitImpl(const UVitOptions& options) : options_(options) {
  check(options);
  const std::int64_t width = options.width, values = options.channels * options.patch * options.patch;
  patch_ = register_module("patch", nn::Linear(values, width, true));
  if (options.vocabulary > 0)
    class_embedding_ = nn::new_parameter(*this, "class_embedding", {options.vocabulary + 1, width});
  if (options.condition_width > 0)
    condition_ = register_module("condition", nn::Linear(options.condition_width, width, true));
  if (options.position == "learned")
    position_embedding_ = nn::new_parameter(*this, "position_embedding", {options.tokens(), width});
  layers_ = encoders::register_blocks(*this, options, {.projection_bias = false});
  const auto skips = register_module("skips", torch::nn::ModuleList());
  for (std::int64_t skip = 0; skip < options.layers / 2; ++skip) {
    skips_.emplace_back(2 * width, width, true);
    skips->push_back(skips_.back());
  }
  final_norm_ = register_module("final_norm", nn::Norm(nn::NormKind::layer, width, true));
  pixels_ = register_module("pixels", nn::Linear(width, values, true));
  convolution_weight_ = nn::new_parameter(*this, "convolution_weight", {options.channels, options.channels, 3, 3});
  convolution_bias_ = nn::new_parameter(*this, "convolution_bias", {options.channels});
}

void UVitImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  const auto of_convolution = [](std::int64_t inputs) { return 1 / std::sqrt(3 * static_cast<double>(inputs)); };
  patch_->initialize(initializer, "patch", of_convolution(options_.channels * options_.patch * options_.patch));
  if (class_embedding_.defined()) initializer.normal(class_embedding_, "class_embedding", encoders::encoder_deviation);
  if (condition_) condition_->initialize(initializer, "condition", encoders::encoder_deviation);
  if (position_embedding_.defined())
    initializer.normal(position_embedding_, "position_embedding", encoders::encoder_deviation);
  encoders::initialize_blocks(layers_, initializer);
  for (std::size_t skip = 0; skip < skips_.size(); ++skip)
    skips_[skip]->initialize(initializer, "skips." + std::to_string(skip), encoders::encoder_deviation);
  final_norm_->initialize();
  pixels_->initialize(initializer, "pixels", encoders::encoder_deviation);
  initializer.normal(convolution_weight_, "convolution_weight", of_convolution(options_.channels * 9));
  const torch::NoGradGuard no_grad;
  convolution_bias_.zero_();
}

void UVitImpl::expect_shapes(const at::Tensor& x, const at::Tensor& time, const NoiseCondition& condition) const {
  const auto expect = [](const char* what, const at::Tensor& tensor, const std::vector<std::int64_t>& sizes) {
    const bool wanted = !sizes.empty(), given = tensor.defined();
    if (wanted != given || (wanted && tensor.sizes() != at::IntArrayRef(sizes)))
      throw UsageError(expected_got(std::string("U-ViT: ") + what, wanted ? shape_text(sizes) : "none",
                                    given ? shape_text(tensor.sizes()) : "none"));
  };
  const std::int64_t batch = x.dim() > 0 ? x.size(0) : 0, side = options_.image_size;
  using Sizes = std::vector<std::int64_t>;
  expect("images", x, {batch, options_.channels, side, side});
  expect("time", time, {batch});
  expect("classes", condition.classes, options_.vocabulary > 0 ? Sizes{batch} : Sizes{});
  expect("condition", condition.vectors,
         options_.condition_width > 0 ? Sizes{batch, options_.condition_tokens, options_.condition_width} : Sizes{});
}

at::Tensor UVitImpl::embed(const at::Tensor& x, const at::Tensor& time, const NoiseCondition& condition) {
  const at::ScalarType type = convolution_weight_.scalar_type();
  const at::Tensor times = time_embedding(nn::to_device(time, x.device()), options_.width).to(type).unsqueeze(1);
  std::vector<at::Tensor> tokens{times};
  // In the order of the published code: a class before the time, vectors after it.
  if (class_embedding_.defined())
    tokens.insert(tokens.begin(),
                  at::embedding(class_embedding_, nn::to_device(condition.classes, x.device())).unsqueeze(1));
  if (condition_) tokens.push_back(condition_(nn::to_device(condition.vectors, x.device()).to(type)).to(type));
  tokens.push_back(patch_(nn::patches_of(x, options_.patch)).to(type));
  const at::Tensor all = at::cat(tokens, 1);
  return position_embedding_.defined() ? all + position_embedding_ : all;
}

at::Tensor UVitImpl::forward(const at::Tensor& given, const at::Tensor& time, const NoiseCondition& condition,
                             const nn::ForwardContext& context) {
  expect_shapes(given, time, condition);
  const at::Tensor x = nn::to_device(given, convolution_weight_.device());
  nn::ResidualStream stream{
      context.hooked(nn::HookPlace::full_embedding, context.dropout.part(0)(embed(x, time, condition)))};
  std::vector<at::Tensor> skipped;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layer > layers_.size() / 2) {
      stream = {skips_[layer - layers_.size() / 2 - 1](at::cat({stream.total(), skipped.back()}, -1))
                    .to(convolution_weight_.scalar_type())};
      skipped.pop_back();
    }
    stream = layers_[layer](stream, context.at_layer(layer));
    if (layer < layers_.size() / 2) {
      stream = {stream.total()};  // once: the skip reads it too
      skipped.push_back(stream.x);
    }
  }
  const at::Tensor patches = final_norm_->of_sum(stream.x, stream.delta, context, nn::final_norm_hooks)
                                 .normed.slice(1, options_.extra_tokens());
  const at::Tensor pixels = nn::image_of_pixels(pixels_(patches).to(convolution_weight_.scalar_type()), options_.patch,
                                                options_.image_size, options_.image_size);
  // A number for each axis: vmap tells from how many there are where the bias belongs.
  const std::array<std::int64_t, 2> one{1, 1};
  return at::conv2d(pixels, convolution_weight_, convolution_bias_, /*stride=*/one, /*padding=*/one);
}

std::vector<nn::HookPoint> UVitImpl::hook_points() const {
  return nn::points_of(layers_, [](nn::HookPlace place) {
    return place == nn::HookPlace::full_embedding || place == nn::HookPlace::final_norm_scale ||
           place == nn::HookPlace::final_norm;
  });
}

std::vector<runs::ConfigField> config_fields(UVitOptions& options) {
  return encoders::encoder_layer_fields(options, {{"model.image_size", &options.image_size},
                                                  {"model.channels", &options.channels},
                                                  {"model.patch", &options.patch},
                                                  {"model.condition_width", &options.condition_width},
                                                  {"model.condition_tokens", &options.condition_tokens}});
}

namespace {

// The noise of `x`, whichever of it the model was trained to tell.
runs::NamedPass pass_of_noise(const runs::RunConfig& config) {
  const auto option = [&](const char* name, const std::string& otherwise) {
    const auto found = config.task.values.find(name);
    return found == config.task.values.end() ? otherwise : std::get<std::string>(found->second);
  };
  const NoiseSchedule schedule =
      NoiseSchedule::named(option("schedule", NoiseSchedule::names().front()), "task.schedule");
  const Prediction prediction = find_prediction(option("prediction", prediction_names().front()), "task.prediction");
  return runs::named_pass(
      UVit(config.model.as<UVitOptions>()),
      [schedule, prediction](UVit& model, const runs::PassInputs& inputs, const nn::ForwardContext& context) {
        const bool classes = model->options().vocabulary > 0;
        const at::Tensor condition =
            classes ? runs::optional_whole_input(inputs, "condition") : runs::optional_input(inputs, "condition");
        const at::Tensor x = runs::needed_input(inputs, "x"), time = runs::needed_input(inputs, "time");
        const at::Tensor told = model->forward(
            x, time, {.classes = classes ? condition : at::Tensor(), .vectors = classes ? at::Tensor() : condition},
            context);
        if (prediction == Prediction::noise) return told;
        const NoiseShares shares = shares_at(schedule, time, told);
        return noise_of(prediction, told, x.to(told.device()), shares.alpha, shares.sigma);
      });
}

}  // namespace

const runs::ModelEntry& u_vit_entry() {
  static const runs::ModelEntry entry =
      runs::model_entry_of<UVitImpl, UVitOptions>("u_vit", pass_of_noise, {{"x"}, {"time"}, {"condition", true}});
  return entry;
}

void stand_in_for_data(UVitOptions& options) { encoders::stand_in_for_image(options); }

}  // namespace cogwheel::tasks::images
