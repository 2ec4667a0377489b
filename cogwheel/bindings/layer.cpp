#include "cogwheel/bindings/layer.h"

#include <torch/library.h>
#include <torch/nn/module.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/bindings/layer_description.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::bindings {
namespace {

using Json = nlohmann::ordered_json;

nn::ForwardContext context_of(const runs::PassInputs& inputs, const nn::ForwardContext& given) {
  nn::ForwardContext context = given;
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  context.positions = runs::optional_whole_input(inputs, "positions");
  context.lengths = optional(runs::optional_whole_input(inputs, "lengths"));
  context.memory = runs::optional_input(inputs, "memory");
  context.memory_lengths = optional(runs::optional_whole_input(inputs, "memory_lengths"));
  context.cu_seqlens = optional(runs::optional_input(inputs, "cu_seqlens"));
  if (const at::Tensor rate = runs::optional_input(inputs, "dropout"); rate.defined())
    context.dropout = {rate.item<double>(),
                       static_cast<std::uint64_t>(runs::needed_whole_input(inputs, "seed").item<std::int64_t>())};
  return context;
}

// The places of one layer, whose names then have no number.
std::vector<nn::HookPoint> points_of(const std::function<bool(nn::HookPlace)>& has_hook,
                                     const std::function<bool(nn::HookPlace)>& only_reads) {
  std::vector<nn::HookPoint> points;
  for (std::size_t index = 0; index < nn::hook_places().size(); ++index)
    if (const auto place = static_cast<nn::HookPlace>(index);
        nn::hook_places()[index].owner == nn::HookOwner::layer && has_hook(place))
      points.push_back({.place = place, .read_only = only_reads(place)});
  return points;
}

runs::NamedPass pass_of_mixer(const std::shared_ptr<nn::TokenMixer>& mixer) {
  return {.module = mixer,
          .points = points_of([&](nn::HookPlace place) { return mixer->has_hook(place); },
                              [&](nn::HookPlace place) {
                                return !nn::hook_places()[static_cast<std::size_t>(place)].replaceable ||
                                       mixer->only_reads(place);
                              }),
          .run = [mixer](const runs::PassInputs& inputs, const nn::ForwardContext& context) {
            return mixer->forward(runs::needed_input(inputs, "x"), context_of(inputs, context));
          }};
}

runs::NamedPass pass_of_block(nn::TransformerBlock block) {
  return {.module = block.ptr(),
          .points = points_of([&](nn::HookPlace place) { return block->has_hook(place); },
                              [&](nn::HookPlace place) { return block->only_reads(place); }),
          .run = [block](const runs::PassInputs& inputs, const nn::ForwardContext& context) mutable {
            const nn::ResidualStream stream{runs::needed_input(inputs, "x")};
            return block->forward(stream, context_of(inputs, context)).total();
          }};
}

std::shared_ptr<const nn::Rotary> rotary_of(const Json& options, const nn::AttentionLayerOptions& attention) {
  const Json rotary = options.value("rotary", Json());
  if (rotary.is_null()) return nullptr;
  if (attention.heads < 1) throw UsageError(expected_got("rotary", "none for a mechanism with a state", "one"));
  return std::make_shared<nn::Rotary>(rotary_options_of(rotary));
}

template <class Module>
auto initializer_of() {
  return [](torch::nn::Module& layer, const nn::WeightInitializer& initializer, double deviation, double residual) {
    dynamic_cast<Module&>(layer).initialize(initializer, "", deviation, residual);
  };
}

}  // namespace

struct Layer::Made {
  std::string description;
  decltype(Layer::initialize_) initialize;
  ParameterizedPass::Make make;
};

Layer::Made Layer::made(const std::string& kind, const std::string& text) {
  Json options = Json::parse(text), bare = options;
  bare.erase("rotary");
  if (kind == "attention") {
    const nn::AttentionLayerOptions of = attention_options_of(bare);
    const auto rotary = rotary_of(options, of);
    return {description_of(of).dump(), initializer_of<nn::TokenMixer>(),
            [of, rotary] { return pass_of_mixer(std::make_shared<nn::AttentionLayerImpl>(of, rotary)); }};
  }
  if (kind == "recurrent") {
    const nn::RecurrentLayerOptions of = recurrent_options_of(bare);
    return {description_of(of).dump(), initializer_of<nn::TokenMixer>(),
            [of] { return pass_of_mixer(std::make_shared<nn::RecurrentLayerImpl>(of)); }};
  }
  if (kind == "block") {
    const nn::TransformerBlockOptions of = block_options_of(bare);
    const auto rotary = rotary_of(options, of.attention);
    return {description_of(of).dump(), initializer_of<nn::TransformerBlockImpl>(),
            [of, rotary] { return pass_of_block(nn::TransformerBlock(of, rotary)); }};
  }
  const std::vector<std::string> kinds{"attention", "recurrent", "block"};
  throw UsageError(expected_got("layer", expected_names(kind, kinds), kind));
}

Layer::Layer(Made made)
    : description_(std::move(made.description)),
      initialize_(std::move(made.initialize)),
      make_(std::move(made.make)),
      pass_(make_, at::kMeta) {}

Layer::Layer(const std::string& kind, const std::string& options)
    : Layer(with_value_errors([&] { return made(kind, options); })) {}

Layer::Inputs Layer::initial_parameters(std::int64_t seed, double standard_deviation,
                                        double residual_standard_deviation) const {
  return with_value_errors([&] {
    const ParameterizedPass fresh(make_);
    initialize_(fresh.module(), nn::WeightInitializer(static_cast<std::uint64_t>(seed)), standard_deviation,
                residual_standard_deviation);
    return fresh.parameters();
  });
}

at::Tensor Layer::forward(const Inputs& parameters, const Inputs& inputs, const std::vector<std::string>& hooked,
                          std::int64_t callback) const {
  return with_value_errors([&] { return ParameterizedPass(pass_, parameters).run(inputs, hooked, callback); });
}

std::vector<std::string> mechanisms_of_layers(const std::string& pattern, std::int64_t layers) {
  return with_value_errors([&] {
    const LayerPattern of_layers(pattern);
    std::vector<std::string> names;
    for (std::int64_t layer = 0; layer < layers; ++layer) names.emplace_back(of_layers.at(layer).description.name);
    return names;
  });
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("rotary_frequencies(str options) -> Tensor", [](const std::string& options) {
    return with_value_errors([&] { return nn::rotary_frequencies(rotary_options_of(Json::parse(options))); });
  });
  library.def("mechanisms_of_layers(str pattern, int layers) -> str[]", mechanisms_of_layers);
  library.class_<Layer>("Layer")
      .def(torch::init<std::string, std::string>())
      .def("description", [](const c10::intrusive_ptr<Layer>& layer) { return layer->description(); })
      .def("initial_parameters", &Layer::initial_parameters)
      .def("parameter_names", &Layer::parameter_names)
      .def("hook_names", &Layer::hook_names)
      .def("read_only_hook_names", &Layer::read_only_hook_names)
      .def("on_request_hook_names", &Layer::on_request_hook_names)
      .def("forward", &Layer::forward);
}

}  // namespace cogwheel::bindings
