#include "cogwheel/models/language_model.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/matrix_product.h"

namespace cogwheel {
namespace {

AttentionLayerOptions attention_options(const LanguageModelOptions& options, std::int64_t layer) {
  return {.width = options.width,
          .heads = options.heads,
          .mechanism = layer_mechanism(options, layer),
          .layer = layer,
          .bias = options.bias,
          .causal = true};
}

void expect_at_least(std::int64_t least, std::int64_t value, const char* name) {
  if (value < least)
    throw UsageError(
        expected_got(std::string("model.") + name, "at least " + std::to_string(least), std::to_string(value)));
}

}  // namespace

void check(const LanguageModelOptions& options) {
  expect_at_least(1, options.vocabulary, "vocabulary");
  expect_at_least(1, options.context, "context");
  expect_at_least(1, options.layers, "layers");
  expect_at_least(0, options.feed_forward, "feed_forward");
  expect_at_least(0, options.first_softmax_layers, "first_softmax_layers");
  expect_at_least(0, options.last_softmax_layers, "last_softmax_layers");
  find_mechanism(options.mechanism, "model.mechanism");
  for (std::int64_t layer = 0; layer < options.layers; ++layer) check(attention_options(options, layer));
}

std::string layer_mechanism(const LanguageModelOptions& options, std::int64_t layer) {
  const bool outer = layer < options.first_softmax_layers || layer >= options.layers - options.last_softmax_layers;
  return outer ? "softmax" : options.mechanism;
}

std::int64_t parameter_count(const LanguageModelOptions& options) {
  std::int64_t count = (options.vocabulary + options.context) * options.width;
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    count += DecoderLayerImpl::parameter_count(attention_options(options, layer), options.feed_forward_width());
  count += LayerNormImpl::parameter_count(options.width, options.bias);
  if (!options.tied_head) count += LinearImpl::parameter_count(options.width, options.vocabulary, options.bias);
  return count;
}

LanguageModelImpl::LanguageModelImpl(const LanguageModelOptions& options) : options_(options) {
  check(options);
  token_embedding_ = register_parameter("token_embedding", torch::empty({options.vocabulary, options.width}));
  position_embedding_ = register_parameter("position_embedding", torch::empty({options.context, options.width}));
  const auto layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    layers_.emplace_back(attention_options(options, layer), options.feed_forward_width());
    layers->push_back(layers_.back());
  }
  final_norm_ = register_module("final_norm", LayerNorm(options.width, options.bias));
  if (!options.tied_head) head_ = register_module("head", Linear(options.width, options.vocabulary, options.bias));
}

void LanguageModelImpl::initialize(std::uint64_t seed) {
  constexpr double standard_deviation = 0.02;
  // 2L projections add to the residual stream: its variance shall not grow with their number.
  const double residual = standard_deviation / std::sqrt(2.0 * static_cast<double>(options_.layers));
  const WeightInitializer initializer(seed);
  initializer.normal(token_embedding_, "token_embedding", standard_deviation);
  initializer.normal(position_embedding_, "position_embedding", standard_deviation);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->initialize(initializer, "layers." + std::to_string(layer), standard_deviation, residual);
  final_norm_->initialize();
  if (head_) head_->initialize(initializer, "head", standard_deviation);
}

at::Tensor LanguageModelImpl::embed(const at::Tensor& tokens) {
  if (tokens.dim() != 2 || tokens.size(1) > options_.context) {
    std::string shape;
    for (const std::int64_t size : tokens.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    throw UsageError(expected_got("language model: tokens", "[batch, up to " + std::to_string(options_.context) + "]",
                                  "[" + shape + "]"));
  }
  return at::embedding(token_embedding_, tokens) + position_embedding_.slice(0, 0, tokens.size(1));
}

at::Tensor LanguageModelImpl::logits(const at::Tensor& hidden) {
  const at::Tensor normed = final_norm_(hidden);
  return head_ ? head_(normed) : matrix_product(normed, token_embedding_);
}

at::Tensor LanguageModelImpl::forward(const at::Tensor& tokens) {
  at::Tensor x = embed(tokens);
  for (auto& layer : layers_) x = layer(x);
  return logits(x);
}

at::Tensor LanguageModelImpl::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(forward(tokens).flatten(0, 1), targets.flatten());
}

std::vector<at::Tensor> LanguageModelImpl::attention_maps(const at::Tensor& tokens) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> maps;
  at::Tensor x = embed(tokens);
  for (auto& layer : layers_) {
    maps.push_back(layer->attention_weights(x));
    x = layer(x);
  }
  return maps;
}

}  // namespace cogwheel
