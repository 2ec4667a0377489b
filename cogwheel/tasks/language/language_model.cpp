#include "cogwheel/tasks/language/language_model.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/losses/divided_head_loss.h"
#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/nn/packed_sequences.h"
#include "cogwheel/nn/ranks/divided_embedding.h"
#include "cogwheel/nn/ranks/divided_linear.h"
#include "cogwheel/nn/ranks/shared_pass.h"
#include "cogwheel/nn/states/key_value_state.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::language {
namespace {

std::shared_ptr<const nn::Rotary> make_rotary(const LanguageModelOptions& options) {
  const std::optional<nn::RotaryOptions> rotary = rotary_options(options);
  return rotary ? std::make_shared<nn::Rotary>(*rotary) : nullptr;
}

void check_positions(const at::Tensor& positions, const at::Tensor& tokens, std::int64_t limit) {
  const std::string what = "language model: positions";
  if (positions.sizes() != tokens.sizes() || positions.scalar_type() != at::kLong)
    throw UsageError(
        expected_got(what, "int64 " + shape_text(tokens.sizes()) + ", as tokens",
                     std::string(at::toString(positions.scalar_type())) + " " + shape_text(positions.sizes())));
  if (!positions.is_cpu() || positions.numel() == 0) return;
  const auto min_position = positions.min().item<std::int64_t>(), max_position = positions.max().item<std::int64_t>();
  if (min_position < 0 || max_position >= limit)
    throw UsageError(expected_got(what, "0 to " + std::to_string(limit - 1),
                                  std::to_string(min_position < 0 ? min_position : max_position)));
}

}  // namespace

LanguageModelImpl::LanguageModelImpl(const LanguageModelOptions& options) : options_(options) {
  check(options);
  token_embedding_ = nn::new_parameter(*this, "token_embedding", {options.vocabulary, options.width});
  if (options.position == "learned")
    position_embedding_ = nn::new_parameter(*this, "position_embedding", {options.context, options.width});
  const auto layers = register_module("layers", torch::nn::ModuleList());
  const std::shared_ptr<const nn::Rotary> rotary = make_rotary(options);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    layers_.emplace_back(layer_options(options, layer), rotary);
    layers->push_back(layers_.back());
  }
  const nn::TransformerBlockOptions block = layer_options(options, 0);
  final_norm_ = register_module("final_norm", nn::Norm(block.norm, options.width, block.norm_bias, block.norm_epsilon));
  if (!options.tied_head)
    head_ = register_module("head", nn::Linear(options.width, options.vocabulary, options.bias && options.head_bias));
}

void LanguageModelImpl::initialize(std::uint64_t seed) {
  constexpr double standard_deviation = 0.02;
  // 2L projections add to the residual stream: the factor keeps its variance independent of their number.
  const double residual = standard_deviation / std::sqrt(2.0 * static_cast<double>(options_.layers));
  const nn::WeightInitializer initializer(seed);
  initializer.normal(token_embedding_, "token_embedding", standard_deviation);
  if (position_embedding_.defined()) initializer.normal(position_embedding_, "position_embedding", standard_deviation);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->initialize(initializer, "layers." + std::to_string(layer), standard_deviation, residual);
  final_norm_->initialize();
  if (head_) head_->initialize(initializer, "head", standard_deviation);
}

at::Tensor LanguageModelImpl::embed(const at::Tensor& tokens, const nn::ForwardContext& context) {
  const std::int64_t first = context.state != nullptr ? context.state->longest() : 0, room = longest_text() - first;
  // Of packed sequences each has the room, and positions of its own, which were checked.
  if (tokens.dim() != 2 || (!context.cu_seqlens && tokens.size(1) > room))
    throw UsageError(expected_got("language model: tokens", "[batch, up to " + std::to_string(room) + "]",
                                  shape_text(tokens.sizes())));
  const at::Tensor read = nn::to_device(tokens, token_embedding_.device());
  const at::Tensor embedded =
      context.hooked(nn::HookPlace::embedding, has_share_of_vocabulary()
                                                   ? nn::embedded_rows_of_ranks(token_embedding_, read, *context.heads)
                                                   : nn::embedded_rows(token_embedding_, read));
  if (!position_embedding_.defined()) return embedded;
  const at::Tensor places =
      context.positions.defined()
          ? at::embedding(position_embedding_, nn::to_device(context.positions, position_embedding_.device()))
          : position_embedding_.narrow(0, first, tokens.size(1));
  if (!context.wants(nn::HookPlace::position_embedding)) return embedded + places;
  return embedded + context.hooked(nn::HookPlace::position_embedding, places.expand_as(embedded));
}

// The caller's context as layers expect it: a state of as many layers, and positions where entries differ in length.
nn::ForwardContext LanguageModelImpl::resolved(const at::Tensor& tokens, const nn::ForwardContext& given) const {
  nn::ForwardContext context = given;
  if (context.state != nullptr && context.state->size() != layers_.size())
    throw UsageError(expected_got("language model: state", std::to_string(layers_.size()) + " layers",
                                  std::to_string(context.state->size())));
  if (context.cu_seqlens && !context.positions.defined() && tokens.dim() == 2)
    context.positions =
        nn::places_in_sequences(*context.cu_seqlens, tokens.size(0), tokens.size(1), "language model").unsqueeze(0);
  if (context.positions.defined()) {
    check_positions(context.positions, tokens, longest_text());
  } else if (context.state != nullptr && tokens.dim() == 2) {
    context.positions = nn::ragged_positions((*context.state)[0], tokens.size(1));
  }
  return context;
}

at::Tensor LanguageModelImpl::head_input(const nn::ResidualStream& stream, const nn::ForwardContext& context) {
  return final_norm_->of_sum(stream.x, stream.delta, context, nn::final_norm_hooks).normed;
}

at::Tensor LanguageModelImpl::logits(const nn::ResidualStream& stream, const nn::ForwardContext& context) {
  const at::Tensor normed = head_input(stream, context);
  const at::Tensor logits = head_ ? head_(normed) : nn::matrix_product(normed, token_embedding_);
  return logits.to(token_embedding_.scalar_type());
}

nn::ResidualStream LanguageModelImpl::stream(const at::Tensor& tokens, const nn::ForwardContext& context) {
  nn::ResidualStream stream{
      context.hooked(nn::HookPlace::full_embedding, context.dropout.part(0)(embed(tokens, context)))};
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) stream = layers_[layer](stream, context.at_layer(layer));
  return stream;
}

at::Tensor LanguageModelImpl::forward(const at::Tensor& tokens, const nn::ForwardContext& context) {
  return pass(tokens, context, false);
}

at::Tensor LanguageModelImpl::last_logits(const at::Tensor& tokens, const nn::ForwardContext& context) {
  return pass(tokens, context, true).squeeze(1);
}

at::Tensor LanguageModelImpl::pass(const at::Tensor& tokens, const nn::ForwardContext& given, bool last_only) {
  const nn::ForwardContext context = resolved(tokens, given);
  const at::Tensor before = context.state != nullptr ? context.state->lengths().clone() : at::Tensor();
  try {
    nn::ResidualStream whole = stream(tokens, context);
    if (last_only && tokens.size(1) > 1) {
      const auto last = [](const at::Tensor& part) { return part.defined() ? part.narrow(1, -1, 1) : part; };
      whole = {last(whole.x), last(whole.delta)};
    }
    return context.hooked(nn::HookPlace::logits, logits(whole, context));
  } catch (...) {
    // Some layers remember the tokens and others do not.
    if (before.defined()) context.state->crop(before);
    throw;
  }
}

nn::ResidualStream LanguageModelImpl::stream_from(std::int64_t layer, const at::Tensor& given,
                                                  const nn::ForwardContext& context) {
  expect_within("language model: layer", layer, Range<std::int64_t>{0, std::ssize(layers_)});
  if (context.state != nullptr) throw UsageError(expected_got("language model: the rest of a pass", "no state", "one"));
  if (given.dim() != 3 || given.size(2) != options_.width)
    throw UsageError(expected_got("language model: residual stream",
                                  "[batch, tokens, " + std::to_string(options_.width) + "]",
                                  shape_text(given.sizes())));
  nn::ResidualStream stream{given};
  for (auto index = static_cast<std::size_t>(layer); index < layers_.size(); ++index)
    stream = layers_[index](stream, context.at_layer(index));
  return stream;
}

at::Tensor LanguageModelImpl::forward_from(std::int64_t layer, const at::Tensor& given,
                                           const nn::ForwardContext& context) {
  return context.hooked(nn::HookPlace::logits, logits(stream_from(layer, given, context), context));
}

at::Tensor LanguageModelImpl::states(const at::Tensor& tokens, const nn::ForwardContext& given) {
  const nn::ForwardContext context = resolved(tokens, given);
  return head_input(stream(tokens, context), context);
}

at::Tensor LanguageModelImpl::states_from(std::int64_t layer, const at::Tensor& given,
                                          const nn::ForwardContext& context) {
  return head_input(stream_from(layer, given, context), context);
}

std::vector<nn::HookPoint> LanguageModelImpl::hook_points() const {
  return nn::points_of(layers_, [&](nn::HookPlace place) {
    return place != nn::HookPlace::position_embedding || position_embedding_.defined();
  });
}

bool LanguageModelImpl::can_decode() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [](const nn::TransformerBlock& layer) { return layer->can_decode(); });
}

std::int64_t LanguageModelImpl::longest_text() const {
  const bool bounded = position_embedding_.defined() ||
                       std::any_of(layers_.begin(), layers_.end(),
                                   [](const nn::TransformerBlock& layer) { return layer->keeps_tokens(); });
  return bounded ? options_.context : std::numeric_limits<std::int64_t>::max();
}

void LanguageModelImpl::expect_kept_keys(nn::NumberType keys) const {
  bool kept = false;
  for (std::int64_t layer = 0; layer < options_.layers; ++layer)
    kept = kept || find_recurrent_law(layer_mechanism(options_, layer)) == nullptr;
  if (keys != nn::NumberType::float32 && !(kept && can_decode()))
    throw UsageError(expected_got("cache", "a model in which a layer keeps keys", options_.mechanism));
}

void LanguageModelImpl::expect_endless() const {
  const auto refuse = [](const std::string& expected, const std::string& got) {
    throw UsageError(expected_got("sink", expected, got));
  };
  if (!can_decode()) refuse("a model that keeps keys or a state", options_.mechanism);
  if (position_embedding_.defined()) refuse("a model whose positions are rotary or none", "learned positions");
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    const std::string mechanism = layer_mechanism(options_, layer);
    if (const RecurrentLaw* const law = find_recurrent_law(mechanism); law != nullptr && law->asks_for_number())
      refuse("mechanisms without a horizon", mechanism);
  }
}

nn::ModelState LanguageModelImpl::make_state(std::int64_t batch, nn::NumberType keys) const {
  expect_kept_keys(keys);
  std::vector<std::unique_ptr<nn::LayerState>> states;
  for (const nn::TransformerBlock& layer : layers_) {
    states.push_back(layer->make_state(batch, options_.context));
    if (auto* const attention = dynamic_cast<nn::KeyValueState*>(states.back().get())) attention->keep_as(keys);
  }
  return nn::ModelState(std::move(states));
}

LanguageModelImpl::TargetRows LanguageModelImpl::target_rows(const at::Tensor& tokens, const at::Tensor& targets,
                                                             const nn::ForwardContext& context) {
  const at::Tensor told = targets.flatten(), read = states(tokens, context).flatten(0, 1);
  const at::Tensor counted = (told != ignored_target).nonzero().squeeze(1);
  const at::Device device = token_embedding_.device();
  if (counted.numel() == told.numel()) return {read, nn::to_device(told, device)};
  return {read.index_select(0, nn::to_device(counted, device)), nn::to_device(told.index_select(0, counted), device)};
}

// Every parameter has a gradient, as on ranks that share the pass and have something to predict.
at::Tensor LanguageModelImpl::no_loss(const at::Tensor& states) const {
  at::Tensor sum = states.sum() + unembedding().sum();
  if (unembedding_bias().defined()) sum = sum + unembedding_bias().sum();
  return sum * 0;
}

std::vector<nn::DividedParameter> LanguageModelImpl::divided_parameters() const {
  std::vector<nn::DividedParameter> divided{{token_embedding_, 0, {options_.vocabulary}}};
  if (head_)
    for (nn::DividedParameter& each : nn::divided_outputs(*head_, {options_.vocabulary}))
      divided.push_back(std::move(each));
  for (const nn::TransformerBlock& layer : layers_)
    for (nn::DividedParameter& each : layer->divided_parameters()) divided.push_back(std::move(each));
  return divided;
}

at::Tensor LanguageModelImpl::loss(const at::Tensor& tokens, const at::Tensor& targets,
                                   const nn::ForwardContext& context) {
  if (context.hooks != nullptr && context.hooks->wants(nn::HookPlace::logits, -1))
    return at::cross_entropy_loss(forward(tokens, context).flatten(0, 1),
                                  nn::to_device(targets.flatten(), token_embedding_.device()));
  TargetRows rows = target_rows(tokens, targets, context);
  if (rows.targets.numel() == 0) return no_loss(rows.states);
  if (has_share_of_vocabulary())
    return nn::divided_head_loss(rows.states, unembedding(), unembedding_bias(), rows.targets, *context.heads);
  double share = 1;
  if (context.heads != nullptr) {  // of a whole head what it makes is shared row by row
    const std::int64_t all = rows.targets.numel(), rank = context.heads->rank(), ranks = context.heads->count(),
                       first = all * rank / ranks, own = all * (rank + 1) / ranks - first;
    rows = {rows.states.narrow(0, first, own), rows.targets.narrow(0, first, own)};
    share = static_cast<double>(own) / static_cast<double>(all);
  }
  if (rows.targets.numel() == 0) return no_loss(rows.states);
  const at::Tensor loss = nn::head_loss(rows.states, unembedding(), unembedding_bias(), rows.targets);
  return share == 1 ? loss : loss * share;
}

namespace {

runs::NamedPass pass_of(const runs::RunConfig& config) {
  return runs::named_pass(LanguageModel(config.model.as<LanguageModelOptions>()),
                          [](LanguageModel& model, const runs::PassInputs& inputs, const nn::ForwardContext& context) {
                            return model->forward(runs::needed_whole_input(inputs, "tokens"), context);
                          });
}

}  // namespace

const runs::ModelEntry& language_model_entry() {
  static const runs::ModelEntry entry = [] {
    auto made = runs::model_entry_of<LanguageModelImpl, LanguageModelOptions>("language_model", pass_of, {{"tokens"}});
    made.norm_before_head = "final_norm";
    return made;
  }();
  return entry;
}

nn::WeightsOfHeads attention_maps(LanguageModel& model, std::span<const Token> text) {
  const at::Tensor tokens = at::tensor(std::vector<std::int64_t>(text.begin(), text.end()), at::kLong).unsqueeze(0);
  return nn::attention_maps([&](const nn::ForwardContext& context) { model->forward(tokens, context); });
}

}  // namespace cogwheel::tasks::language
