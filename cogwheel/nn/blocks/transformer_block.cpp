#include "cogwheel/nn/blocks/transformer_block.h"

#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/blocks/recomputed_blocks.h"
#include "cogwheel/nn/ranks/awaited_weights.h"
#include "cogwheel/nn/weights/derivative_path.h"

namespace cogwheel::nn {
namespace {

// For a block that attends both to its own sequence and to a memory.
struct BlockState : LayerState {
  std::unique_ptr<LayerState> own, memory;

  BlockState(std::unique_ptr<LayerState> of_tokens, std::unique_ptr<LayerState> of_memory)
      : own(std::move(of_tokens)), memory(std::move(of_memory)) {}
  at::Tensor lengths() const override { return own->lengths(); }
  std::int64_t longest() const override { return own->longest(); }
  void crop(const at::Tensor& kept) override { own->crop(kept); }
  void check_crop(const at::Tensor& kept) const override { own->check_crop(kept); }
  void forget(std::int64_t first, std::int64_t count) override { own->forget(first, count); }
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override {
    return std::make_unique<BlockState>(own->fork(entries), memory->fork(entries));
  }
  std::int64_t bytes() const override { return own->bytes() + memory->bytes(); }
};

std::shared_ptr<TokenMixer> make_mixer(const TransformerBlockOptions& options, std::shared_ptr<const Rotary> rotary) {
  if (options.recurrent) return std::make_shared<RecurrentLayerImpl>(*options.recurrent);
  return std::make_shared<AttentionLayerImpl>(options.attention, std::move(rotary));
}

Norm make_norm(const TransformerBlockOptions& options) {
  return Norm(options.norm, options.attention.width, options.norm_bias, options.norm_epsilon);
}

constexpr NormHooks attention_norm_hooks{HookPlace::attention_norm_scale, HookPlace::attention_norm},
    memory_norm_hooks{HookPlace::memory_norm_scale, HookPlace::memory_norm},
    feed_forward_norm_hooks{HookPlace::feed_forward_norm_scale, HookPlace::feed_forward_norm};

}  // namespace

TransformerBlockImpl::TransformerBlockImpl(const TransformerBlockOptions& options, std::shared_ptr<const Rotary> rotary)
    : norm_place_(options.norm_place),
      attention_norm_(make_norm(options)),
      attention_(make_mixer(options, std::move(rotary))),
      feed_forward_norm_(make_norm(options)),
      feed_forward_(options.feed_forward) {
  register_module("attention_norm", attention_norm_);
  register_module("attention", attention_);
  if (options.memory_attention) {
    AttentionLayerOptions of_memory = *options.memory_attention;
    of_memory.memory = true;
    memory_norm_ = register_module("memory_norm", make_norm(options));
    memory_attention_ = register_module("memory_attention", std::make_shared<AttentionLayerImpl>(of_memory));
  }
  register_module("feed_forward_norm", feed_forward_norm_);
  register_module("feed_forward", feed_forward_);
}

// The inputs of single heads that hooks see.
HeadInputs TransformerBlockImpl::head_inputs(const at::Tensor& stream, const ForwardContext& context) {
  const HeadCounts counts = attention_->head_counts();
  const auto read = [&](HookPlace place, std::int64_t heads) -> HeadInput {
    if (heads == 0 || !context.wants(place)) return {};
    const at::Tensor given = stream.unsqueeze(2).expand({stream.size(0), stream.size(1), heads, stream.size(2)}),
                     left = context.hooked(place, given);
    const auto normed = [&](const at::Tensor& x) { return norm_place_ == NormPlace::before ? attention_norm_(x) : x; };
    if (context.changed(place, given, left)) return {normed(left)};
    if (!has_derivatives(left)) return {};
    return {normed(left), normed(given)};
  };
  return {read(HookPlace::query_input, counts.query), read(HookPlace::key_input, counts.key),
          read(HookPlace::value_input, counts.value)};
}

ResidualStream TransformerBlockImpl::forward(const ResidualStream& stream, const ForwardContext& context) {
  AwaitedWeights::wait_for(*this);
  if (!RecomputedBlocks::include(context)) return pass(stream, context);
  return recomputed(stream, context,
                    [this](const ResidualStream& given, const ForwardContext& of) { return pass(given, of); });
}

ResidualStream TransformerBlockImpl::pass(const ResidualStream& given, const ForwardContext& context) {
  const auto observed = [&](HookPlace place, const ResidualStream& stream) {
    return context.wants(place) ? ResidualStream{context.hooked(place, stream.total())} : stream;
  };
  // What a part reads from the stream and writes back to it. After it, the stream is at `after` before its norm.
  const auto add = [&](const ResidualStream& stream, Norm& norm, NormHooks hooks, HookPlace after,
                       std::size_t dropout_part, auto&& part) {
    const Dropout dropout = context.dropout.part(dropout_part);
    if (norm_place_ == NormPlace::before) {
      const NormOfSum read = norm->of_sum(stream.x, stream.delta, context, hooks);
      return observed(after, ResidualStream{read.sum, dropout(part(read.normed))});
    }
    const at::Tensor x = stream.total();
    const ResidualStream sum = observed(after, ResidualStream{x, dropout(part(x))});
    return ResidualStream{norm->of_sum(sum.x, sum.delta, context, hooks, true).normed};
  };
  auto* const both = memory_attention_ ? static_cast<BlockState*>(context.layer_state) : nullptr;
  const auto inside = [&](bool memory, std::size_t dropout_part) {
    ForwardContext inner = context;
    inner.dropout = context.dropout.part(dropout_part);
    inner.site.memory = memory;
    if (both != nullptr) inner.layer_state = (memory ? both->memory : both->own).get();
    return inner;
  };
  // What a part adds, computed from x unless hooks supply it.
  const auto added = [](const ForwardContext& of, HookPlace place, const at::Tensor& x, auto&& compute) {
    at::Tensor value = of.supplied(place);
    if (value.defined() && value.sizes() != x.sizes())
      throw UsageError(expected_got(HookPoint{place, of.site.layer, of.site.memory}.name(),
                                    "a tensor of shape " + shape_text(x.sizes()), shape_text(value.sizes())));
    return of.hooked(place, value.defined() ? value : compute());
  };
  ResidualStream stream = observed(HookPlace::stream_before, given);
  const bool apart = context.wants(HookPlace::query_input) || context.wants(HookPlace::key_input) ||
                     context.wants(HookPlace::value_input);
  if (apart) stream = {stream.total()};
  stream =
      add(stream, attention_norm_, attention_norm_hooks,
          memory_attention_ ? HookPlace::stream_before_memory : HookPlace::stream_between, 0, [&](const at::Tensor& x) {
            ForwardContext inner = inside(false, 1);
            const HeadInputs inputs = apart ? head_inputs(stream.x, context) : HeadInputs();
            inner.head_inputs = apart ? &inputs : nullptr;
            return added(inner, HookPlace::attention_output, x, [&] { return attention_->forward(x, inner); });
          });
  if (memory_attention_)
    stream = add(stream, memory_norm_, memory_norm_hooks, HookPlace::stream_between, 3, [&](const at::Tensor& x) {
      const ForwardContext inner = inside(true, 4);
      return added(inner, HookPlace::attention_output, x, [&] { return memory_attention_->forward(x, inner); });
    });
  stream =
      add(stream, feed_forward_norm_, feed_forward_norm_hooks, HookPlace::stream_after, 2, [&](const at::Tensor& x) {
        return added(context, HookPlace::feed_forward_output, x, [&] { return feed_forward_(x, context); });
      });
  return norm_place_ == NormPlace::after ? observed(HookPlace::normed_stream, stream) : stream;
}

bool TransformerBlockImpl::has_hook(HookPlace place) const {
  switch (place) {
    case HookPlace::stream_before:
    case HookPlace::attention_norm_scale:
    case HookPlace::attention_norm:
    case HookPlace::attention_output:
    case HookPlace::stream_between:
    case HookPlace::feed_forward_norm_scale:
    case HookPlace::feed_forward_norm:
    case HookPlace::feed_forward_output:
    case HookPlace::stream_after:
      return true;
    case HookPlace::query_input:
    case HookPlace::key_input:
    case HookPlace::value_input:
      return attention_->head_counts().query > 0;
    case HookPlace::stream_before_memory:
    case HookPlace::memory_norm_scale:
    case HookPlace::memory_norm:
      return static_cast<bool>(memory_attention_);
    case HookPlace::normed_stream:
      return norm_place_ == NormPlace::after;
    default:
      return attention_->has_hook(place) || feed_forward_->has_hook(place);
  }
}

bool TransformerBlockImpl::only_reads(HookPlace place) const {
  return !hook_places()[static_cast<std::size_t>(place)].replaceable || attention_->only_reads(place);
}

std::vector<DividedParameter> TransformerBlockImpl::divided_parameters() const {
  std::vector<DividedParameter> divided = attention_->divided_parameters();
  for (DividedParameter& each : feed_forward_->divided_parameters()) divided.push_back(std::move(each));
  return divided;
}

bool TransformerBlockImpl::can_decode() const { return attention_->can_decode(); }

bool TransformerBlockImpl::keeps_tokens() const { return attention_->keeps_tokens(); }

std::unique_ptr<LayerState> TransformerBlockImpl::make_state(std::int64_t batch, std::int64_t capacity) const {
  auto own = attention_->make_state(batch, capacity);
  if (!memory_attention_) return own;
  return std::make_unique<BlockState>(std::move(own), memory_attention_->make_state(batch, capacity));
}

void TransformerBlockImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                      double standard_deviation, double residual_standard_deviation) {
  attention_norm_->initialize();
  attention_->initialize(initializer, name + ".attention", standard_deviation, residual_standard_deviation);
  if (memory_attention_) {
    memory_norm_->initialize();
    memory_attention_->initialize(initializer, name + ".memory_attention", standard_deviation,
                                  residual_standard_deviation);
  }
  feed_forward_norm_->initialize();
  feed_forward_->initialize(initializer, name + ".feed_forward", standard_deviation, residual_standard_deviation);
}

std::vector<HookPoint> points_of(const std::vector<TransformerBlock>& layers,
                                 const std::function<bool(HookPlace)>& of_model) {
  std::vector<HookPoint> points;
  const auto places = hook_places();
  const auto add_of_model = [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place)
      if (of_model(static_cast<HookPlace>(place))) points.push_back({static_cast<HookPlace>(place)});
  };
  // The model's places come before and after those of its layers.
  const auto of_layer = [](const HookPlaceDescription& place) { return place.owner == HookOwner::layer; };
  const auto first = static_cast<std::size_t>(std::find_if(places.begin(), places.end(), of_layer) - places.begin());
  const auto count = static_cast<std::size_t>(std::count_if(places.begin(), places.end(), of_layer));
  add_of_model(0, first);
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (std::size_t place = first; place < first + count; ++place)
      if (const auto at = static_cast<HookPlace>(place); layers[layer]->has_hook(at))
        points.push_back(
            {.place = at, .layer = static_cast<std::int64_t>(layer), .read_only = layers[layer]->only_reads(at)});
  add_of_model(first + count, places.size());
  return points;
}

}  // namespace cogwheel::nn
