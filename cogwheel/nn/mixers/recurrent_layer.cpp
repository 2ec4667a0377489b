#include "cogwheel/nn/mixers/recurrent_layer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/head_width.h"
#include "cogwheel/nn/mixers/law_parameters.h"
#include "cogwheel/nn/packed_sequences.h"
#include "cogwheel/nn/ranks/shared_pass.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"

namespace cogwheel::nn {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const RecurrentLaw& law_of(const std::string& mechanism) {
  if (const RecurrentLaw* law = find_recurrent_law(mechanism)) return *law;
  throw UsageError(expected_got("mechanism of a recurrent layer", "one with a state", mechanism));
}

// [B, N, heads · width] → [B, heads, N, width], a view.
at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2);
}

at::Tensor of_length_one(const at::Tensor& x) { return x * (x.square().sum(-1, true) + 1e-6).rsqrt(); }

// The log of what the tokens up to each have written, after the total of earlier ones, which may be undefined, or from
// the first token of their sequence on: phi [B, H, N, slots] → alike.
at::Tensor totals(const at::Tensor& phi, const at::Tensor& earlier, const at::Tensor& cu_seqlens) {
  if (earlier.defined()) return at::logcumsumexp(at::cat({earlier, phi}, 2), 2).narrow(2, 1, phi.size(2));
  if (!cu_seqlens.defined()) return at::logcumsumexp(phi, 2);
  std::vector<at::Tensor> sequences;
  for (const at::Tensor& part :
       phi.tensor_split(cu_seqlens.to(at::kCPU, at::kLong).slice(0, 1, cu_seqlens.size(0) - 1), 2))
    sequences.push_back(at::logcumsumexp(part, 2));
  return at::cat(sequences, 2);
}

// Undefined where there are none.
std::vector<at::Tensor> stretches_of_places(const SharedTexts& texts, const at::Tensor& places, std::size_t count) {
  return places.defined() ? texts.stretches(places, 0) : std::vector<at::Tensor>(count);
}

}  // namespace

void check(const RecurrentLayerOptions& options) {
  law_of(options.mechanism);
  checked_head_width(options.width, options.heads, options.head_dim, ops::max_key_width);
}

RecurrentLayerImpl::RecurrentLayerImpl(const RecurrentLayerOptions& options)
    : options_(options), law_(law_of(options.mechanism)), recipe_(recipe_of(law_, options.plain)) {
  check(options);
  head_dim_ = options.used_head_dim();
  value_dim_ = head_dim_ * recipe_.expansion;
  const std::int64_t values = options.heads * value_dim_;
  const std::int64_t read = recipe_.inner ? values : options.width;
  const auto linear = [&](const char* name, std::int64_t inputs, std::int64_t outputs) {
    return register_module(name, Linear(inputs, outputs, options.bias));
  };
  if (recipe_.inner) inner_ = linear("inner", options.width, values);
  const std::int64_t keys = recipe_.shared_keys ? head_dim_ : options.heads * head_dim_;
  if (law_.has_query) query_ = linear("query", read, keys);
  if (law_.has_key) key_ = linear("key", read, keys);
  if (!recipe_.inner) value_ = linear("value", options.width, values);
  if (recipe_.output_gate) output_gate_ = linear("output_gate", options.width, values);
  output_ = linear("output", values, options.width);
  if (recipe_.convolution || recipe_.inner)
    convolution_ = register_module(
        "convolution", CausalConvolution(recipe_.inner ? values : values + (law_.has_key + law_.has_query) * keys));
  for (const GateRecipe& gate : gates_of(law_, recipe_, options.plain)) {
    const bool doubled = std::any_of(law_.options.begin(), law_.options.end(), [&](const LawOption& option) {
      return option.parameter == gate.parameter && options.law_options.on(option.name);
    });
    gate_names_.emplace_back(gate.parameter);
    gates_.push_back(register_module(gate_names_.back(),
                                     RecurrentGate(RecurrentGateOptions{.recipe = gate,
                                                                        .parameter = parameter_of(law_, gate.parameter),
                                                                        .inputs = read,
                                                                        .heads = options.heads,
                                                                        .key_width = head_dim_,
                                                                        .value_width = value_dim_,
                                                                        .layer = options.layer,
                                                                        .layers = options.layers,
                                                                        .doubled = doubled})));
  }
  if (recipe_.token_shift)
    shift_ =
        register_module("shift", TokenShift(options.width, 4 + static_cast<std::int64_t>(gates_.size()),
                                            static_cast<double>(options.layer) / static_cast<double>(options.layers)));
  if (recipe_.head_norm)
    head_norm_ = register_module("head_norm", Norm(NormKind::rms, value_dim_, false, options.head_norm_epsilon));
  if (recipe_.skip) skip_ = new_parameter(*this, "skip", {values});
  if (recipe_.features == LayerFeatures::random_of_units)
    features_ = new_parameter(*this, "features", {options.heads, head_dim_, head_dim_});
}

at::Tensor RecurrentLayerImpl::convolved(const at::Tensor& x, const Before& before) {
  if (before.texts == nullptr) return convolution_(x, before.carried.inputs, before.places);
  const auto earlier =
      before.texts->tokens_before(x, 1, CausalConvolutionImpl::taps - 1, "what a convolution reads of others");
  const auto own = before.texts->stretches(x, 1);
  const auto places = stretches_of_places(*before.texts, before.places, own.size());
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < own.size(); ++i) parts.push_back(convolution_(own[i], earlier[i], places[i]));
  return at::cat(parts, 1);
}

std::vector<at::Tensor> RecurrentLayerImpl::shifted(const at::Tensor& x, const Before& before) {
  if (before.texts == nullptr) return shift_(x, before.carried.last, before.places);
  const auto earlier = before.texts->tokens_before(x, 1, 1, "tokens before those of others");
  const auto own = before.texts->stretches(x, 1);
  const auto places = stretches_of_places(*before.texts, before.places, own.size());
  std::vector<std::vector<at::Tensor>> of_reader;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::vector<at::Tensor> readers = shift_(own[i], earlier[i], places[i]);
    of_reader.resize(readers.size());
    for (std::size_t reader = 0; reader < readers.size(); ++reader) of_reader[reader].push_back(readers[reader]);
  }
  std::vector<at::Tensor> joined;
  for (const std::vector<at::Tensor>& parts : of_reader) joined.push_back(at::cat(parts, 1));
  return joined;
}

RecurrentLayerImpl::Inputs RecurrentLayerImpl::read(const at::Tensor& x, const Before& before, Carried& after) {
  if (recipe_.token_shift) {
    const std::vector<at::Tensor> readers = shifted(x, before);
    after.last = x.narrow(1, x.size(1) - 1, 1).clone();
    return {readers[0], readers[1], readers[2], readers[3], {readers.begin() + 4, readers.end()}};
  }
  if (!recipe_.inner) return {x, x, x, x, std::vector<at::Tensor>(gates_.size(), x)};
  const at::Tensor values = inner_(x), read = at::silu(convolved(values, before)).to(values.scalar_type());
  after.inputs = CausalConvolutionImpl::tail(values, before.carried.inputs);
  return {read, read, recipe_.values_before_convolution ? values : read, x,
          std::vector<at::Tensor>(gates_.size(), read)};
}

RecurrentLayerImpl::Heads RecurrentLayerImpl::project(const Inputs& inputs, const Before& before, Carried& after) {
  // Value, query, key, as far as there are.
  std::vector<at::Tensor> parts{value_ ? value_(inputs.value) : inputs.value};
  if (query_) parts.push_back(query_(inputs.query));
  if (key_) parts.push_back(key_(inputs.key));
  const at::ScalarType type = parts[0].scalar_type();
  if (recipe_.convolution) {
    const at::Tensor joined = at::cat(parts, -1);
    after.inputs = CausalConvolutionImpl::tail(joined, before.carried.inputs);
    std::vector<std::int64_t> widths;
    for (const at::Tensor& part : parts) widths.push_back(part.size(-1));
    parts = at::silu(convolved(joined, before)).to(type).split_with_sizes(widths, -1);
  }
  const auto of_each_head = [&](const at::Tensor& part) {
    return heads_of(part, part.size(-1) / head_dim_).expand({-1, options_.heads, -1, -1});
  };
  Heads heads{.query = query_ ? of_each_head(parts[1]) : at::Tensor(),
              .key = key_ ? of_each_head(parts.back()) : at::Tensor(),
              .value = heads_of(parts[0], options_.heads),
              .skipped = recipe_.inner ? inputs.query : parts[0],
              .parameters = {}};
  apply_features(heads.query, heads.key);
  for (std::size_t i = 0; i < gates_.size(); ++i) {
    const RecurrentGateImpl::Value gate = gates_[i](inputs.gates[i]);
    heads.parameters.emplace_back(gate_names_[i], gate.tensor);
    if (gate.step.defined()) heads.value = (heads.value * gate.step).to(type);
  }
  if (recipe_.running_means) {
    at::Tensor& phi = heads.parameters.front().second;
    const at::Tensor& earlier = before.carried.total;
    const auto own = [&](const at::Tensor& of_all) {
      return before.texts != nullptr ? before.texts->own_tokens(of_all, 2) : of_all;
    };
    const at::Tensor of_all =
                         before.texts != nullptr ? before.texts->all_tokens(phi, 2, "what tokens have written") : phi,
                     until = totals(of_all, earlier, before.cu_seqlens), now = own(until);
    // The first token of a text has no sum before it to decay.
    at::Tensor past =
        own(at::cat({earlier.defined() ? earlier : until.narrow(2, 0, 1), until.narrow(2, 0, of_all.size(2) - 1)}, 2));
    if (before.places.defined()) past = at::where((before.places == 0).to(now.device()).unsqueeze(-1), now, past);
    phi = (phi - now).exp();
    heads.parameters.emplace_back("log_decay", (past - now).clamp_max(0));
    after.total = now.narrow(2, now.size(2) - 1, 1).clone();
  }
  for (const RecurrentParameter& parameter : law_.parameters)
    if (parameter.required && parameter.axes.empty())
      heads.parameters.emplace_back(std::string(parameter.name),
                                    at::scalar_tensor(static_cast<double>(options_.context), at::kDouble));
  return heads;
}

void RecurrentLayerImpl::apply_features(at::Tensor& query, at::Tensor& key) const {
  if (!query.defined()) return;
  const at::ScalarType type = query.scalar_type();
  const auto both = [&](auto&& map) {
    query = map(query).to(type);
    if (key.defined()) key = map(key).to(type);
  };
  switch (recipe_.features) {
    case LayerFeatures::as_they_are:
    case LayerFeatures::elu_plus_one:  // the law's own
      break;
    case LayerFeatures::silu_of_query:
      query = at::silu(query);
      break;
    case LayerFeatures::unit:
      both(of_length_one);
      break;
    case LayerFeatures::positive:
      both([](const at::Tensor& x) { return at::elu(x) + 1; });
      break;
    case LayerFeatures::random_of_units:
      both([&](const at::Tensor& x) {
        return of_length_one(x.to(features_.scalar_type())).matmul(features_.transpose(1, 2)).relu();
      });
      break;
  }
}

ops::RecurrentOptions RecurrentLayerImpl::operator_options(const Heads& heads) const {
  ops::RecurrentOptions options{.parameters = heads.parameters};
  if (!recipe_.scaled) options.scale = 1;
  if (recipe_.features == LayerFeatures::elu_plus_one) {
    options.feature_map = "elu_plus_one";
    options.normalize = true;
  }
  return options;
}

at::Tensor RecurrentLayerImpl::walk(const Heads& heads, const Before& before, std::vector<at::Tensor>& after) const {
  ops::RecurrentOptions options = operator_options(heads);
  options.initial_state = before.carried.law;
  if (before.cu_seqlens.defined()) options.cu_seqlens = to_device(before.cu_seqlens, heads.value.device());
  const auto walked = [&] {
    at::Tensor output;
    const auto query = heads.given_query(), key = heads.given_key();
    std::tie(output, after) = before.texts != nullptr
                                  ? before.texts->recurrent(query, key, heads.value, law_.name, options)
                                  : ops::recurrent(query, key, heads.value, law_.name, options);
    return output;
  };
  // The operator refuses gates that are NaN or, of numbers that have become too large, beyond what a law allows; but a
  // run whose weights diverge has a loss to record, NaN. The tokens before such a gate are as without it, as they are
  // where a key or a value is NaN.
  if (before.texts != nullptr) {  // one rank must not refuse what others wait for
    const at::Tensor lost = without_refused(law_, options.parameters), output = walked();
    return lost.defined() ? output.masked_fill(lost.unsqueeze(-1), nan) : output;
  }
  try {
    return walked();
  } catch (const c10::ValueError&) {
    if (refuses_whole(law_, options.parameters)) {
      after = before.carried.law;
      return at::full_like(heads.value, nan);
    }
    at::Tensor lost = without_refused(law_, options.parameters);
    if (!lost.defined()) throw;
    const at::Tensor output = walked();
    lost = lost.cumsum(2).gt(0);
    const at::Tensor at_last = lost.select(2, lost.size(2) - 1).unsqueeze(-1);
    // But not the maximum m of an mLSTM, which becomes part of a gate.
    for (std::size_t i = 0; i < std::min<std::size_t>(after.size(), 2); ++i)
      after[i] = after[i].masked_fill(after[i].dim() == 4 ? at_last.unsqueeze(-1) : at_last, nan);
    return output.masked_fill(lost.unsqueeze(-1), nan);
  }
}

at::Tensor RecurrentLayerImpl::combine(at::Tensor by_token, const Heads& heads, const Inputs& inputs,
                                       const ForwardContext& context) {
  if (skip_.defined()) by_token = by_token + (heads.skipped * skip_).unflatten(-1, {options_.heads, value_dim_});
  if (head_norm_)
    by_token =
        context.hooked(HookPlace::normed_heads, head_norm_(by_token.to(output_->parameters().front().scalar_type())));
  at::Tensor joined = by_token.flatten(2);
  if (output_gate_) joined = joined * at::silu(output_gate_(inputs.output_gate));
  return output_(joined);
}

at::Tensor RecurrentLayerImpl::forward(const at::Tensor& x, const ForwardContext& context) {
  auto* const state = static_cast<RecurrentState*>(context.layer_state);
  Before before;
  before.texts = context.texts;
  if (context.cu_seqlens) {
    if (state != nullptr)
      throw UsageError(
          expected_got("recurrent layer: cu_seqlens", "none with a state", shape_text(context.cu_seqlens->sizes())));
    const std::int64_t ranks = context.texts != nullptr ? context.texts->count() : 1;
    before.places = to_device(places_in_sequences(*context.cu_seqlens, x.size(0), x.size(1) * ranks, "recurrent layer"),
                              x.device());
    if (context.texts != nullptr) before.places = context.texts->own_tokens(before.places, 0);
    before.cu_seqlens = *context.cu_seqlens;
  } else if (state != nullptr) {
    before.carried = state->carried();
  }
  Carried after;
  const Inputs inputs = read(x, before, after);
  Heads heads = project(inputs, before, after);
  if (context.hooks != nullptr) {
    const auto hooked = [&](HookPlace place, at::Tensor& of_heads) {  // [B, H, N, D]; hooks have [B, N, H, D]
      if (of_heads.defined()) of_heads = context.hooked(place, of_heads.transpose(1, 2)).transpose(1, 2);
    };
    hooked(HookPlace::query, heads.query);
    hooked(HookPlace::key, heads.key);
    hooked(HookPlace::value, heads.value);
  }
  const at::Tensor output = walk(heads, before, after.law);
  if (state != nullptr) state->advance(std::move(after), x.size(1));
  const at::Tensor by_token = observed(heads, output, context).transpose(1, 2);
  return combine(context.hooked(HookPlace::heads, by_token), heads, inputs, context);
}

std::vector<Projection> RecurrentLayerImpl::projections() const {
  std::vector<std::int64_t> itself(static_cast<std::size_t>(options_.heads));
  std::iota(itself.begin(), itself.end(), 0);
  std::vector<Projection> projections;
  const auto add = [&](ProjectionRole role, const Linear& module, const char* name, std::int64_t width) {
    if (module) projections.push_back({role, name, 0, options_.heads, width, itself});
  };
  if (!recipe_.inner && !recipe_.shared_keys) {
    add(ProjectionRole::query, query_, "query", head_dim_);
    add(ProjectionRole::key, key_, "key", head_dim_);
  }
  add(ProjectionRole::value, value_, "value", value_dim_);
  add(ProjectionRole::output, output_, "output", value_dim_);
  return projections;
}

bool RecurrentLayerImpl::has_hook(HookPlace place) const {
  switch (place) {
    case HookPlace::query:
      return law_.has_query;
    case HookPlace::key:
      return law_.has_key;
    case HookPlace::normed_heads:
      return static_cast<bool>(head_norm_);
    case HookPlace::value:
    case HookPlace::pattern:
    case HookPlace::row_statistics:
    case HookPlace::heads:
      return true;
    default:
      return false;
  }
}

std::unique_ptr<LayerState> RecurrentLayerImpl::make_state(std::int64_t batch, std::int64_t) const {
  return std::make_unique<RecurrentState>(batch);
}

void RecurrentLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                    double standard_deviation, double residual_standard_deviation) {
  const auto linear = [&](Linear& module, const char* part, double deviation) {
    if (module) module->initialize(initializer, name + "." + part, deviation);
  };
  linear(inner_, "inner", standard_deviation);
  linear(query_, "query", standard_deviation);
  linear(key_, "key", standard_deviation);
  linear(value_, "value", standard_deviation);
  linear(output_gate_, "output_gate", standard_deviation);
  linear(output_, "output", residual_standard_deviation);
  if (convolution_) convolution_->initialize(initializer, name + ".convolution");
  for (std::size_t i = 0; i < gates_.size(); ++i)
    gates_[i]->initialize(initializer, name + "." + gate_names_[i], standard_deviation);
  if (shift_) shift_->initialize(initializer, name + ".shift");
  if (head_norm_) head_norm_->initialize();
  if (features_.defined()) initializer.normal(features_, name + ".features", 1);
  const torch::NoGradGuard no_grad;
  if (skip_.defined()) skip_.fill_(1);
}

}  // namespace cogwheel::nn
