#include "cogwheel/tasks/translation/transformer.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/token.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::translation {
namespace {

// Parts of the model's dropout, apart from those of layers.
enum EmbeddingPart : std::uint64_t { of_source = std::uint64_t{1} << 32, of_target };

struct TransformerState : Translator::State {
  nn::ModelState layers;
  at::Tensor memory, lengths;  // the former until the layers have their keys and values of it

  TransformerState(nn::ModelState of_layers, at::Tensor encoded, at::Tensor of_sources)
      : layers(std::move(of_layers)), memory(std::move(encoded)), lengths(std::move(of_sources)) {}
  std::unique_ptr<State> fork(const at::Tensor& entries) const override {
    return std::make_unique<TransformerState>(
        layers.fork(entries), memory.defined() ? memory.index_select(0, entries.to(memory.device())) : at::Tensor(),
        lengths.index_select(0, entries.to(lengths.device())));
  }
};

}  // namespace

TransformerImpl::TransformerImpl(const TransformerOptions& options) : options_(options) {
  check(options);
  const auto matrix = [&](const char* name, std::int64_t rows) {
    return nn::new_parameter(*this, name, {rows, options.width});
  };
  embedding_ = matrix("embedding", options.vocabulary);
  if (!options.tied_embeddings) {
    target_embedding_ = matrix("target_embedding", options.vocabulary);
    output_ = matrix("output", options.vocabulary);
  }
  output_bias_ = nn::new_parameter(*this, "output_bias", {options.vocabulary});
  if (options.position == "learned") {
    source_positions_ = matrix("source_position_embedding", options.context);
    target_positions_ = matrix("target_position_embedding", options.context);
  }
  std::shared_ptr<const nn::Rotary> rotary;
  if (const auto rotated = rotary_options(options)) rotary = std::make_shared<nn::Rotary>(*rotated);
  const auto stack = [&](const char* name, auto layer_of, std::vector<nn::TransformerBlock>& blocks) {
    const auto list = register_module(name, torch::nn::ModuleList());
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      blocks.emplace_back(layer_of(options, layer), rotary);
      list->push_back(blocks.back());
    }
    const nn::TransformerBlockOptions block = layer_of(options, 0);
    return register_module(std::string(name) + "_norm",
                           nn::Norm(block.norm, options.width, block.norm_bias, block.norm_epsilon));
  };
  encoder_norm_ = stack("encoder", encoder_layer, encoder_);
  decoder_norm_ = stack("decoder", decoder_layer, decoder_);
}

void TransformerImpl::initialize(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  constexpr double deviation = 0.02;
  const nn::WeightInitializer initializer(seed);
  for (auto& [name, parameter] : named_parameters(/*recurse=*/false).pairs())
    if (parameter.dim() == 2) initializer.normal(parameter, name, deviation);
  output_bias_.zero_();
  const auto layers = static_cast<double>(options_.layers);
  const auto stack = [&](const std::string& name, std::vector<nn::TransformerBlock>& blocks, double writers) {
    for (std::size_t layer = 0; layer < blocks.size(); ++layer)
      blocks[layer]->initialize(initializer, name + "." + std::to_string(layer), deviation,
                                deviation / std::sqrt(writers));
  };
  stack("encoder", encoder_, 2 * layers);
  stack("decoder", decoder_, 3 * layers);
  encoder_norm_->initialize();
  decoder_norm_->initialize();
}

at::Tensor TransformerImpl::embed(const at::Tensor& tokens, const at::Tensor& embedding, const at::Tensor& positions,
                                  std::int64_t first) const {
  const std::int64_t room = options_.context - first;
  if (tokens.dim() != 2 || tokens.size(1) < 1 || tokens.size(1) > room)
    throw UsageError(
        expected_got("transformer: tokens", "[batch, 1 to " + std::to_string(room) + "]", shape_text(tokens.sizes())));
  const at::Tensor embedded = nn::embedded_rows(embedding, nn::to_device(tokens, embedding.device()));
  return positions.defined() ? embedded + positions.narrow(0, first, tokens.size(1)) : embedded;
}

// Of a layer of either stack, without a state.
nn::ForwardContext TransformerImpl::at_layer(const nn::ForwardContext& context, std::int64_t layer) const {
  nn::ForwardContext inner = context;
  inner.state = nullptr;
  return inner.at_layer(static_cast<std::size_t>(layer));
}

at::Tensor TransformerImpl::encode(const at::Tensor& tokens, const at::Tensor& lengths,
                                   const nn::ForwardContext& given) {
  nn::ForwardContext context = given;
  context.lengths = nn::to_device(lengths, embedding_.device());
  nn::ResidualStream stream{context.dropout.part(of_source)(embed(tokens, embedding_, source_positions_, 0))};
  for (std::size_t layer = 0; layer < encoder_.size(); ++layer)
    stream = encoder_[layer](stream, at_layer(context, static_cast<std::int64_t>(layer)));
  return encoder_norm_->of_sum(stream.x, stream.delta, true).normed;
}

at::Tensor TransformerImpl::decode(const at::Tensor& inputs, const nn::ForwardContext& given,
                                   const nn::ModelState* state) {
  nn::ForwardContext context = given;
  context.lengths = {};  // of padding at the end only padding reads
  const std::int64_t first = state != nullptr ? state->longest() : 0;
  const at::Tensor& embedding = target_embedding_.defined() ? target_embedding_ : embedding_;
  nn::ResidualStream stream{context.dropout.part(of_target)(embed(inputs, embedding, target_positions_, first))};
  for (std::size_t layer = 0; layer < decoder_.size(); ++layer) {
    nn::ForwardContext inner = at_layer(context, options_.layers + static_cast<std::int64_t>(layer));
    if (state != nullptr) inner.layer_state = &(*state)[layer];
    stream = decoder_[layer](stream, inner);
  }
  return decoder_norm_->of_sum(stream.x, stream.delta).normed;
}

at::Tensor TransformerImpl::product_of_logits(const at::Tensor& x) {
  return nn::matrix_product(x, output_.defined() ? output_ : embedding_, output_bias_);
}

at::Tensor TransformerImpl::logits(const at::Tensor& x) { return product_of_logits(x).to(embedding_.scalar_type()); }

at::Tensor TransformerImpl::forward(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                                    const nn::ForwardContext& given) {
  nn::ForwardContext context = given;
  context.memory = encode(source, lengths, given);
  context.memory_lengths = nn::to_device(lengths, embedding_.device());
  return logits(decode(inputs, context));
}

nn::ModelState TransformerImpl::make_state(std::int64_t batch) const {
  std::vector<std::unique_ptr<nn::LayerState>> states;
  for (const nn::TransformerBlock& layer : decoder_) states.push_back(layer->make_state(batch, options_.context));
  return nn::ModelState(std::move(states));
}

std::unique_ptr<Translator::State> TransformerImpl::start(const at::Tensor& tokens, const at::Tensor& lengths) {
  return std::make_unique<TransformerState>(make_state(tokens.size(0)), encode(tokens, lengths),
                                            nn::to_device(lengths, embedding_.device()));
}

at::Tensor TransformerImpl::next_logits(State& given, const at::Tensor& tokens) {
  auto& state = static_cast<TransformerState&>(given);
  nn::ForwardContext context;
  context.memory = state.memory;
  context.memory_lengths = state.lengths;
  const at::Tensor x = decode(tokens.unsqueeze(1), context, &state.layers);
  state.memory = at::Tensor();
  return logits(x.squeeze(1));
}

at::Tensor TransformerImpl::loss(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                                 const at::Tensor& targets, double smoothing, const nn::Dropout& dropout) {
  nn::ForwardContext context;
  context.dropout = dropout;
  context.memory = encode(source, lengths, context);
  context.memory_lengths = nn::to_device(lengths, embedding_.device());
  const at::Tensor x = decode(inputs, context).flatten(0, 1);
  const at::Tensor flat = targets.flatten(),
                   places = nn::to_device((flat != ignored_target).nonzero().squeeze(1), x.device());
  return nn::token_loss(product_of_logits(x.index_select(0, places)),
                        nn::to_device(flat, x.device()).index_select(0, places), smoothing);
}

at::Tensor TransformerImpl::source_weights(const at::Tensor& source, const at::Tensor& lengths,
                                           const at::Tensor& inputs, std::optional<std::int64_t> layer) {
  const std::int64_t read = layer.value_or(aligning_layer());
  expect_within("alignment layer", read, Range<std::int64_t>{0, options_.layers - 1});
  at::Tensor weights;
  nn::Hooks hooks;
  hooks.read(
      nn::HookPlace::pattern,
      [&](const nn::HookPoint& at, const at::Tensor& pattern) {
        if (at.memory) weights = pattern;
      },
      options_.layers + read);
  nn::ForwardContext context;
  context.memory = encode(source, lengths);
  context.memory_lengths = nn::to_device(lengths, embedding_.device());
  context.hooks = &hooks;
  decode(inputs, context);
  return weights;
}

std::string TransformerImpl::alignment_title() const { return mechanism_text(options_, "model.mechanism").title; }

std::vector<nn::HookPoint> TransformerImpl::hook_points() const {
  std::vector<nn::TransformerBlock> layers = encoder_;
  layers.insert(layers.end(), decoder_.begin(), decoder_.end());
  // Those of the attention to h follow the norm before it.
  constexpr nn::HookPlace of_memory[] = {nn::HookPlace::query,           nn::HookPlace::key,     nn::HookPlace::value,
                                         nn::HookPlace::scores,          nn::HookPlace::pattern, nn::HookPlace::heads,
                                         nn::HookPlace::attention_output};
  std::vector<nn::HookPoint> points;
  for (const nn::HookPoint& point : nn::points_of(layers, [](nn::HookPlace) { return false; })) {
    points.push_back(point);
    if (point.place != nn::HookPlace::memory_norm) continue;
    for (const nn::HookPlace place : of_memory)
      points.push_back({.place = place, .layer = point.layer, .memory = true});
  }
  return points;
}

namespace {

runs::NamedPass pass_of(const runs::RunConfig& config) {
  return runs::named_pass(Transformer(config.model.as<TransformerOptions>()), [](Transformer& model,
                                                                                 const runs::PassInputs& inputs,
                                                                                 const nn::ForwardContext& context) {
    const at::Tensor source = runs::needed_whole_input(inputs, "source"),
                     lengths = runs::optional_whole_input(inputs, "lengths");
    return model->forward(source, lengths.defined() ? lengths : at::full({source.size(0)}, source.size(1), at::kLong),
                          runs::needed_whole_input(inputs, "tokens"), context);
  });
}

}  // namespace

const runs::ModelEntry& transformer_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<TransformerImpl, TransformerOptions>(
      "transformer", pass_of, {{"source"}, {"tokens"}, {"lengths", true}});
  return entry;
}

}  // namespace cogwheel::tasks::translation
