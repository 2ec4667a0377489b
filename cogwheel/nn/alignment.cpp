#include "cogwheel/nn/alignment.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/head_width.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/cache/cache_checks.h"
#include "cogwheel/ops/pairwise/parameters.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::nn {
namespace {

std::int64_t score_width_of(const AlignmentLayerOptions& options) {
  return options.score_width == 0 ? options.decoder_width : options.score_width;
}

// [B, N, heads · width] → [B, heads, N, width], a view.
at::Tensor as_heads(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2);
}

void check_divided(const char* name, std::int64_t width, std::int64_t heads) {
  if (width < 1) throw UsageError(expected_got(name, "at least 1", std::to_string(width)));
  if (heads < 1 || width % heads != 0)
    throw UsageError(expected_got("heads", "a divisor of the " + std::string(name) + " (" + std::to_string(width) + ")",
                                  std::to_string(heads)));
}

void check_states(const char* name, const at::Tensor& x, std::int64_t width) {
  if (x.dim() != 3 || x.size(2) != width)
    throw UsageError(expected_got("alignment: " + std::string(name), "[batch, tokens, " + std::to_string(width) + "]",
                                  ops::shape_text(x)));
}

void check_memory_lengths(const at::Tensor& lengths, std::int64_t batch) {
  if (lengths.scalar_type() != at::kLong || lengths.dim() != 1 || lengths.size(0) != batch)
    throw UsageError(expected_got("alignment: lengths", "int64 [" + std::to_string(batch) + "]",
                                  c10::toString(lengths.scalar_type()) + (" " + ops::shape_text(lengths))));
}

[[noreturn]] void refuse_call(const char* call, const char* expected, const Alignment& alignment) {
  throw UsageError(expected_got("alignment: " + std::string(call), expected, alignment.name()));
}

}  // namespace

void check(const AlignmentLayerOptions& options) {
  const Alignment alignment = find_alignment(options.alignment);
  check_divided("decoder_width", options.decoder_width, options.heads);
  check_divided("encoder_width", options.encoder_width, options.heads);
  if (alignment.kind->score == AlignmentScore::dot && options.encoder_width != options.decoder_width)
    throw UsageError(expected_got("encoder_width of " + options.alignment,
                                  std::to_string(options.decoder_width) + " (as decoder_width)",
                                  std::to_string(options.encoder_width)));
  if (options.score_width < 0)
    throw UsageError(expected_got("score_width", "0 (as decoder_width) or more", std::to_string(options.score_width)));
  if (!alignment.is_none())
    checked_head_width(
        alignment.kind->score == AlignmentScore::additive ? score_width_of(options) : options.decoder_width,
        options.heads);
  if (!(options.radius > 0) || !std::isfinite(options.radius))
    throw UsageError(expected_got("radius", "a number above 0", std::to_string(options.radius)));
}

AlignmentMemory AlignmentMemory::followed_by(const AlignmentMemory& more) const {
  AlignmentMemory longer = *this;
  longer.key = at::cat({key, more.key}, 2), longer.value = at::cat({value, more.value}, 2);
  return longer;
}

AlignmentMemory AlignmentMemory::fork(const at::Tensor& entries) const {
  if (!key.defined()) return {};
  const at::Tensor chosen = ops::checked_entries(entries, key.size(0)).to(key.device());
  AlignmentMemory copy = *this;
  copy.key = key.index_select(0, chosen), copy.value = value.index_select(0, chosen);
  if (lengths) copy.lengths = lengths->index_select(0, chosen.to(lengths->device()));
  return copy;
}

AlignmentLayerImpl::AlignmentLayerImpl(const AlignmentLayerOptions& options)
    : options_(options), alignment_(find_alignment(options.alignment)) {
  check(options);
  const std::int64_t heads = options.heads, decoder = options.decoder_width, encoder = options.encoder_width;
  if (is(AlignmentScore::additive)) {
    const std::int64_t width = score_width_of(options);
    query_ = register_module("query", Linear(decoder, width, false));
    key_ = register_module("key", Linear(encoder, width, false));
    score_ = new_parameter(*this, "score", {heads, width / heads});
  }
  if (is(AlignmentScore::general)) key_ = register_module("key", Linear(encoder, decoder, false));
  if (is(AlignmentWindow::around_prediction)) {
    position_ = register_module("position", Linear(decoder, decoder, false));
    position_score_ = new_parameter(*this, "position_score", {heads, decoder / heads});
  }
  if (!alignment_.is_none() && !alignment_.kind->before_step && options.attentional)
    combine_ = register_module("combine", Linear(encoder + decoder, decoder, false));
  if (alignment_.is_none()) return;
  const auto names = ops::parameter_names(*alignment_.map);
  for (std::size_t i = 0; i < alignment_.map->parameter_initial.size(); ++i)
    learned_.emplace_back(names[i], new_parameter(*this, names[i], {heads}));
}

AlignmentMemory AlignmentLayerImpl::remember(const at::Tensor& encoded_, const std::optional<at::Tensor>& lengths,
                                             const at::Tensor& values) {
  check_states("encoded", encoded_, options_.encoder_width);
  if (alignment_.is_none()) return {};
  at::Tensor encoded = encoded_, read = values.defined() ? values : encoded_;
  if (lengths) {
    check_memory_lengths(*lengths, encoded.size(0));
    const at::Tensor token = at::arange(encoded.size(1), lengths->options().device(encoded.device()));
    const at::Tensor padding = token >= lengths->to(encoded.device()).unsqueeze(1);
    encoded = encoded.masked_fill(padding.unsqueeze(2), 0);
    read = values.defined() ? read.masked_fill(padding.unsqueeze(2), 0) : encoded;
  }
  const at::Tensor key = key_ ? key_(encoded) : encoded;
  // Additive scores are computed in float32: converted here, they need not be in every step.
  const at::ScalarType type = is(AlignmentScore::additive) ? ops::computed_type(encoded)
                              : BFloat16Products::enabled() && encoded.scalar_type() == at::kFloat
                                  ? at::kBFloat16
                                  : encoded.scalar_type();
  return {as_heads(key.to(type), options_.heads), as_heads(read.to(type), options_.heads), lengths,
          query_ ? std::optional(query_->collected()) : std::nullopt};
}

at::Tensor AlignmentLayerImpl::query(const at::Tensor& states, const AlignmentMemory& memory) {
  const at::Tensor query =
      memory.query ? memory.query->product(states.flatten(0, 1)).unflatten(0, states.sizes().slice(0, 2)) : states;
  return as_heads(query.to(memory.key.scalar_type()), options_.heads);
}

at::Tensor AlignmentLayerImpl::predicted_positions(const at::Tensor& states, const AlignmentMemory& memory) {
  if (!is(AlignmentWindow::around_prediction)) refuse_call("predicted_positions", "a local-p", alignment_);
  const at::ScalarType type = ops::computed_type(memory.key);
  const at::Tensor hidden = position_(states).to(type).tanh().unflatten(-1, {options_.heads, -1});  // [B, T, heads, …]
  const at::Tensor share = (hidden * position_score_).sum(-1).sigmoid().transpose(1, 2);
  if (!memory.lengths) return share * static_cast<double>(memory.key.size(2));
  return share * memory.lengths->to(share.options()).view({-1, 1, 1});
}

ops::AttentionOptions AlignmentLayerImpl::operator_options(const at::Tensor& states, const AlignmentMemory& memory,
                                                           std::int64_t first_step, const Dropout& dropout) {
  ops::AttentionOptions options{.scale = 1, .key_lengths = memory.lengths, .parameters = learned_};
  if (is(AlignmentScore::additive)) {
    options.score = "additive";
    options.score_weight = score_;
  }
  if (!is(AlignmentWindow::whole)) options.local_radius = options_.radius;
  if (is(AlignmentWindow::around_prediction)) options.local_centers = predicted_positions(states, memory);
  if (is(AlignmentWindow::around_step) && first_step != 0)
    options.first_positions = at::full({states.size(0)}, first_step, states.options().dtype(at::kLong));
  if (dropout.rate() > 0) {
    options.dropout = dropout.rate();
    options.seed = at::scalar_tensor(static_cast<std::int64_t>(dropout.seed()), at::kLong);
  }
  return options;
}

at::Tensor AlignmentLayerImpl::forward(const at::Tensor& states, const AlignmentMemory& memory, std::int64_t first_step,
                                       const Dropout& dropout) {
  check_states("states", states, options_.decoder_width);
  if (alignment_.is_none()) return states.narrow(-1, 0, 0);
  const at::Tensor contexts =
      ops::attention(query(states, memory), memory.key, memory.value, alignment_.map->operator_name,
                     operator_options(states, memory, first_step, dropout));
  return contexts.transpose(1, 2).flatten(2);
}

at::Tensor AlignmentLayerImpl::weights(const at::Tensor& states, const AlignmentMemory& memory,
                                       std::int64_t first_step) {
  check_states("states", states, options_.decoder_width);
  if (alignment_.is_none()) refuse_call("weights", "attention", alignment_);
  return ops::attention_weights(query(states, memory), memory.key, alignment_.map->operator_name,
                                operator_options(states, memory, first_step, {}));
}

at::Tensor AlignmentLayerImpl::attentional_state(const at::Tensor& contexts, const at::Tensor& states) {
  if (!combine_) refuse_call("attentional_state", "a Luong kind", alignment_);
  return combine_(at::cat({contexts, states}, -1)).tanh();
}

void AlignmentLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                    double standard_deviation) {
  const torch::NoGradGuard no_grad;
  const auto draw = [&](Linear& linear, const char* part) {
    if (linear) linear->initialize(initializer, name + "." + part, standard_deviation);
  };
  draw(query_, "query"), draw(key_, "key"), draw(position_, "position"), draw(combine_, "combine");
  if (score_.defined()) initializer.normal(score_, name + ".score", standard_deviation);
  if (position_score_.defined()) initializer.normal(position_score_, name + ".position_score", standard_deviation);
  for (std::size_t i = 0; i < learned_.size(); ++i) learned_[i].second.fill_(alignment_.map->parameter_initial[i]);
}

}  // namespace cogwheel::nn
