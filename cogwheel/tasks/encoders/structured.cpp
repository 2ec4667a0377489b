#include "cogwheel/tasks/encoders/structured.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::encoders {

StructuredImpl::StructuredImpl(const StructuredOptions& options)
    : Forerunner((check(options), options), "structured", options.queries * options.width), options_(options) {
  const std::int64_t width = options.width;
  network_ =
      register_module("network", nn::RecurrentNetwork(nn::RecurrentNetworkOptions{
                                     .cell = options.cell == "lstm" ? nn::RecurrentCell::lstm : nn::RecurrentCell::gru,
                                     .inputs = width,
                                     .width = width / 2,
                                     .layers = options.layers,
                                     .bidirectional = true}));
  key_ = register_module("key", nn::Linear(width, width, false));
  queries_ = nn::new_parameter(*this, "queries", {options.queries, width});
  alignment_ = register_module("alignment", nn::AlignmentLayer(nn::AlignmentLayerOptions{
                                                .alignment = alignment_over(AlignmentScore::dot, options.mechanism),
                                                .decoder_width = width,
                                                .encoder_width = width,
                                                .attentional = false}));
}

void StructuredImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  initialize_ends(initializer);
  network_->initialize(initializer, "network");
  key_->initialize(initializer, "key", deviation_of(options_.width));
  initializer.normal(queries_, "queries", deviation_of(options_.width));
  alignment_->initialize(initializer, "alignment", deviation_of(options_.width));
}

nn::AlignmentMemory StructuredImpl::read(const at::Tensor& tokens, const nn::ForwardContext& context) {
  std::optional<at::Tensor> lengths;
  if (context.lengths) lengths = nn::to_device(*context.lengths, device());
  const at::Tensor states =
      network_
          ->forward(embed(tokens, context.dropout), {.lengths = lengths, .dropout = context.dropout.part(of_layers)})
          .output;
  return alignment_->remember(computed(key_(states)).tanh(), lengths, states);
}

Classified StructuredImpl::classify(const at::Tensor& tokens, const at::Tensor&, const nn::ForwardContext& context,
                                    bool learns) {
  const nn::AlignmentMemory memory = read(tokens, context);
  const at::Tensor queries = this->queries(tokens.size(0));
  Classified found{.logits = read_classes(alignment_->forward(queries, memory).flatten(1), context.dropout)};
  if (learns && options_.penalty > 0)
    found.penalty = options_.penalty * redundancy(computed(alignment_->weights(queries, memory).squeeze(1)));
  return found;
}

at::Tensor StructuredImpl::weights(const at::Tensor& tokens, const nn::ForwardContext& context) {
  return alignment_->weights(queries(tokens.size(0)), read(tokens, context)).squeeze(1);
}

at::Tensor redundancy(const at::Tensor& weights) {
  const at::Tensor unit = at::eye(weights.size(1), weights.options());
  return (weights.matmul(weights.transpose(1, 2)) - unit).square().sum({1, 2}).mean();
}

namespace {

runs::NamedPass structured_pass(const runs::RunConfig& config) {
  return pass_of_classifier(Structured(config.model.as<StructuredOptions>()));
}

}  // namespace

const runs::ModelEntry& structured_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<StructuredImpl, StructuredOptions>(
      "structured", structured_pass, {{"tokens"}, {"segments", true}, {"lengths", true}});
  return entry;
}

}  // namespace cogwheel::tasks::encoders
