#include "cogwheel/tasks/encoders/decomposable.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::encoders {
namespace {

// The tokens of one sentence of each row, side by side from its first on.
struct Sentence {
  at::Tensor states;   // [B, M, width]; at and beyond the length anything
  at::Tensor lengths;  // [B] int64
  at::Tensor seen;     // [B, M, 1]
};

// Tokens from `first` [B] on, so many [B].
Sentence sentence_of(const at::Tensor& states, const at::Tensor& first, const at::Tensor& lengths) {
  const std::int64_t longest = lengths.max().item<std::int64_t>();
  const at::Tensor places = first.unsqueeze(1) + at::arange(longest, first.options());
  const at::Tensor within = places.clamp_max(states.size(1) - 1).unsqueeze(2).expand({-1, -1, states.size(2)});
  const at::Tensor seen = at::arange(longest, lengths.options()) < lengths.unsqueeze(1);
  return {states.gather(1, within), lengths, seen.unsqueeze(2)};
}

}  // namespace

at::Tensor DecomposableImpl::TwoLayers::operator()(const at::Tensor& x) {
  return computed(second(computed(first(x)).relu())).relu();
}

DecomposableImpl::TwoLayers DecomposableImpl::two_layers(const char* name, std::int64_t inputs) {
  const std::string prefix(name);
  return {.first = register_module(prefix + "_first", nn::Linear(inputs, options_.width, true)),
          .second = register_module(prefix + "_second", nn::Linear(options_.width, options_.width, true))};
}

DecomposableImpl::DecomposableImpl(const DecomposableOptions& options)
    : Forerunner((check(options), options), "decomposable", 2 * options.width), options_(options) {
  const std::int64_t width = options.width;
  project_ = register_module("project", nn::Linear(width, width, false));
  attend_ = two_layers("attend", width);
  compare_ = two_layers("compare", 2 * width);
  alignment_ = register_module("alignment", nn::AlignmentLayer(nn::AlignmentLayerOptions{
                                                .alignment = alignment_over(AlignmentScore::dot, options.mechanism),
                                                .decoder_width = width,
                                                .encoder_width = width,
                                                .attentional = false}));
}

void DecomposableImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  initialize_ends(initializer);
  project_->initialize(initializer, "project", deviation_of(options_.width));
  const auto draw = [&](TwoLayers& layers, const std::string& name) {
    layers.first->initialize(initializer, name + "_first", deviation_of(layers.first->weight().size(1)));
    layers.second->initialize(initializer, name + "_second", deviation_of(options_.width));
  };
  draw(attend_, "attend"), draw(compare_, "compare");
  alignment_->initialize(initializer, "alignment", deviation_of(options_.width));
}

Classified DecomposableImpl::classify(const at::Tensor& tokens, const at::Tensor& segments,
                                      const nn::ForwardContext& context, bool) {
  const at::Tensor embedded = computed(project_(embed(tokens, context.dropout)));
  const at::Tensor all = context.lengths ? context.lengths->to(at::kCPU, at::kLong)
                                         : at::full({tokens.size(0)}, tokens.size(1), at::kLong);
  const at::Tensor of_second =
      segments.defined() ? segments.to(at::kCPU).eq(1).logical_and_(at::arange(tokens.size(1)) < all.unsqueeze(1))
                         : at::zeros({tokens.size(0), tokens.size(1)}, at::kBool);
  const at::Tensor after = of_second.sum(1), before = all - after;
  if (after.min().item<std::int64_t>() < 1 || before.min().item<std::int64_t>() < 1)
    throw UsageError(expected_got("decomposable", "two sentences in each row", "one"));
  const Sentence a = sentence_of(embedded, nn::to_device(at::zeros_like(before), device()),
                                 nn::to_device(before, device())),
                 b = sentence_of(embedded, nn::to_device(before, device()), nn::to_device(after, device()));
  const at::Tensor query_a = attend_(a.states), query_b = attend_(b.states);
  // What the sentence reads of the other, compared and summed.
  const auto compared = [&](const Sentence& own, const at::Tensor& query, const Sentence& other,
                            const at::Tensor& key) {
    const at::Tensor read =
        computed(alignment_->forward(query, alignment_->remember(key, other.lengths, other.states)));
    const at::Tensor each = compare_(at::cat({own.states, read}, -1));
    return each.where(own.seen, at::zeros({}, each.options())).sum(1);
  };
  return {.logits = read_classes(at::cat({compared(a, query_a, b, query_b), compared(b, query_b, a, query_a)}, -1),
                                 context.dropout)};
}

namespace {

runs::NamedPass decomposable_pass(const runs::RunConfig& config) {
  return pass_of_classifier(Decomposable(config.model.as<DecomposableOptions>()));
}

}  // namespace

const runs::ModelEntry& decomposable_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<DecomposableImpl, DecomposableOptions>(
      "decomposable", decomposable_pass, {{"tokens"}, {"segments"}, {"lengths", true}});
  return entry;
}

}  // namespace cogwheel::tasks::encoders
