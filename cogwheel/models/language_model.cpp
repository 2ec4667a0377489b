#include "cogwheel/models/language_model.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/shape_text.h"
#include "cogwheel/nn/matrix_product.h"

namespace cogwheel {
namespace {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

std::shared_ptr<const Rotary> make_rotary(const LanguageModelOptions& options) {
  if (options.position == "learned") return nullptr;
  return std::make_shared<Rotary>(options.width / options.heads, options.context,
                                  options.position == "rotary" ? RotaryPairs::interleaved : RotaryPairs::halves,
                                  options.rotary_base);
}

}  // namespace

LanguageModelImpl::LanguageModelImpl(const LanguageModelOptions& options) : options_(options) {
  check(options);
  token_embedding_ = register_parameter("token_embedding", torch::empty({options.vocabulary, options.width}));
  if (options.position == "learned")
    position_embedding_ = register_parameter("position_embedding", torch::empty({options.context, options.width}));
  const auto layers = register_module("layers", torch::nn::ModuleList());
  const std::shared_ptr<const Rotary> rotary = make_rotary(options);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    layers_.emplace_back(layer_options(options, layer), rotary);
    layers->push_back(layers_.back());
  }
  final_norm_ = register_module("final_norm", Norm(norm_kind(options), options.width, options.bias));
  if (!options.tied_head) head_ = register_module("head", Linear(options.width, options.vocabulary, options.bias));
}

void LanguageModelImpl::initialize(std::uint64_t seed) {
  constexpr double standard_deviation = 0.02;
  // 2L projections add to the residual stream: its variance shall not grow with their number.
  const double residual = standard_deviation / std::sqrt(2.0 * static_cast<double>(options_.layers));
  const WeightInitializer initializer(seed);
  initializer.normal(token_embedding_, "token_embedding", standard_deviation);
  if (position_embedding_.defined()) initializer.normal(position_embedding_, "position_embedding", standard_deviation);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->initialize(initializer, "layers." + std::to_string(layer), standard_deviation, residual);
  final_norm_->initialize();
  if (head_) head_->initialize(initializer, "head", standard_deviation);
}

at::Tensor LanguageModelImpl::embed(const at::Tensor& tokens, std::int64_t first_position) {
  const std::int64_t room = options_.context - first_position;
  if (tokens.dim() != 2 || tokens.size(1) > room)
    throw UsageError(expected_got("language model: tokens", "[batch, up to " + std::to_string(room) + "]",
                                  shape_text(tokens.sizes())));
  const at::Tensor embedded = at::embedding(token_embedding_, tokens);
  return position_embedding_.defined() ? embedded + position_embedding_.narrow(0, first_position, tokens.size(1))
                                       : embedded;
}

at::Tensor LanguageModelImpl::logits(const ResidualStream& stream) {
  const at::Tensor normed = final_norm_->of_sum(stream.x, stream.delta).normed;
  const at::Tensor logits = head_ ? head_(normed) : matrix_product(normed, token_embedding_);
  return logits.to(token_embedding_.scalar_type());
}

at::Tensor LanguageModelImpl::forward(const at::Tensor& tokens, std::optional<std::uint64_t> dropout_seed) {
  const Dropout dropout = dropout_seed ? Dropout(options_.dropout, *dropout_seed) : Dropout();
  ResidualStream stream{dropout.part(0)(embed(tokens))};
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) stream = layers_[layer](stream, dropout.part(layer + 1));
  return logits(stream);
}

bool LanguageModelImpl::can_decode() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [](const DecoderLayer& layer) { return layer->attention()->can_decode(); });
}

std::vector<KeyValueCache> LanguageModelImpl::make_caches(std::int64_t batch) const {
  std::vector<KeyValueCache> caches;
  for (const DecoderLayer& layer : layers_) caches.push_back(layer->attention()->make_cache(batch, options_.context));
  return caches;
}

at::Tensor LanguageModelImpl::decode(const at::Tensor& tokens, std::vector<KeyValueCache>& caches) {
  if (caches.size() != layers_.size())
    throw UsageError(expected_got("language model: caches", std::to_string(layers_.size()) + ", one for each layer",
                                  std::to_string(caches.size())));
  ResidualStream stream{embed(tokens, caches.front().longest())};
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) stream = layers_[layer]->decode(stream, caches[layer]);
  return logits(stream);
}

at::Tensor LanguageModelImpl::loss(const at::Tensor& tokens, const at::Tensor& targets,
                                   std::optional<std::uint64_t> dropout_seed) {
  return cross_entropy(forward(tokens, dropout_seed), targets);
}

std::vector<at::Tensor> LanguageModelImpl::attention_maps(const at::Tensor& tokens) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> maps;
  ResidualStream stream{embed(tokens)};
  for (auto& layer : layers_) {
    maps.push_back(layer->attention_weights(stream));
    stream = layer(stream);
  }
  return maps;
}

StatisticsOfHeads LanguageModelImpl::pass_observed(ResidualStream& stream) {
  StatisticsOfHeads statistics;
  for (auto& layer : layers_) {
    statistics.push_back(layer->head_statistics(stream));
    stream = layer(stream);
  }
  return statistics;
}

StatisticsOfHeads LanguageModelImpl::head_statistics(const at::Tensor& tokens) {
  const torch::NoGradGuard no_grad;
  ResidualStream stream{embed(tokens)};
  return pass_observed(stream);
}

Observation LanguageModelImpl::observe(const at::Tensor& tokens, const at::Tensor& targets) {
  const torch::NoGradGuard no_grad;
  ResidualStream stream{embed(tokens)};
  StatisticsOfHeads heads = pass_observed(stream);
  return {cross_entropy(logits(stream), targets), std::move(heads)};
}

}  // namespace cogwheel
