// cogwheel::recurrent: what a law makes of keys, queries and the walk's sums, in ATen's operators around the walk.
#include "cogwheel/ops/recurrent/recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/ops/recurrent/delta_walk.h"
#include "cogwheel/ops/recurrent/exponential_gates.h"
#include "cogwheel/ops/recurrent/feature_maps.h"
#include "cogwheel/ops/recurrent/normalized_sums.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/state_space.h"
#include "cogwheel/ops/recurrent/token_rows.h"
#include "cogwheel/ops/recurrent/token_walk.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel {
namespace {

// A call whose arguments have been checked. Tensors are in the dtype that is computed in.
struct Call {
  const RecurrentLaw& law;
  at::Tensor query, value;  // of a law without queries, a view with the sizes of one (like_a_query)
  OptionalTensor key;
  std::string_view features;
  bool causal, normalized;
  double scale;
  OptionalTensor cu_seqlens;
  std::vector<at::Tensor> initial_state;
  MechanismParameters parameters;

  OptionalTensor parameter(std::string_view name) const {
    for (const auto& [given, tensor] : parameters)
      if (given == name) return tensor;
    return std::nullopt;
  }
  OptionalTensor state(std::size_t index) const {
    return initial_state.empty() ? OptionalTensor() : initial_state[index];
  }
  at::Tensor mapped(const at::Tensor& x) const { return feature_map(features, x, parameter("projection")); }
};

struct Outcome {
  at::Tensor output;
  std::vector<at::Tensor> state;
};

at::Tensor with_ones(const at::Tensor& value) {
  return at::cat(
      {value, at::ones_symint({value.sym_size(0), value.sym_size(1), value.sym_size(2), 1}, value.options())}, -1);
}

// Of every token over all tokens, which no state can be cut from but the sum over all of them.
std::tuple<at::Tensor, at::Tensor> walk_over_all(const TokenWalk& walk) {
  at::Tensor state = walk.key.mT().matmul(walk.value);
  if (walk.initial_state) state = state + *walk.initial_state;
  return {(walk.scale * walk.query).matmul(state), state};
}

// z obeys the law of S for v = 1, so it is one more column of the state, and o·z one more of the output.
struct NormalizedWalk {
  at::Tensor sums, state, z;  // sums [B, H, N, Dv + 1]
};

NormalizedWalk walk_with_z(const Call& call, TokenWalk walk) {
  const c10::SymInt width = walk.value.sym_size(3);
  walk.counts = call.causal && walk.transition != "per_channel" && !walk.value_gate;
  if (!walk.counts) walk.value = with_ones(walk.value);
  if (call.initial_state.size() >= 2)
    walk.initial_state = at::cat({call.initial_state[0], call.initial_state[1].unsqueeze(-1)}, -1);
  const auto [sums, last] = call.causal ? token_walk(walk) : walk_over_all(walk);
  return {sums, last.narrow_symint(-1, 0, width).contiguous(), last.select_symint(-1, width).contiguous()};
}

// Where the tokens of packed sequences belong, all int64.
struct PackedTokens {
  at::Tensor begins, ends;         // of each sequence
  at::Tensor positions, sequence;  // of each token

  PackedTokens(const at::Tensor& cu_seqlens, const c10::SymInt& tokens)
      : begins(cu_seqlens.slice_symint(0, 0, cu_seqlens.sym_size(0) - 1)),
        ends(cu_seqlens.slice_symint(0, 1)),
        positions(at::arange(tokens, cu_seqlens.options())),
        sequence(at::searchsorted(ends, positions, false, true)) {}
};

Outcome one_walk(const Call& call, TokenWalk walk) {
  if (!call.normalized) {
    const auto [sums, last] = call.causal ? token_walk(walk) : walk_over_all(walk);
    return {sums, {last}};
  }
  const NormalizedWalk made = walk_with_z(call, walk);
  return {normalized_sums(made.sums), {made.state, made.z}};
}

Outcome linear(const Call& call, TokenWalk walk) {
  walk.query = call.mapped(call.query);
  const auto complement = [&] { return walk.gate->expm1().neg(); };  // 1 − α
  walk.key = call.law.has_key() ? call.mapped(*call.key) : complement();
  if (call.law.write == Write::key_by_complement) walk.key = weighted_rows(walk.key, complement());
  Outcome outcome = one_walk(call, walk);
  if (call.law.read == Read::before_with_bonus) {
    const at::Tensor bonus = call.parameter("bonus")->unsqueeze(1) * walk.key;  // u ∘ k
    outcome.output = outcome.output + (call.scale * walk.query * bonus).sum(-1, true) * call.value;
  }
  return outcome;
}

// Sums are kept times exp(−m), with m the running maximum of the exponents.
Outcome exponential_writes(const Call& call, TokenWalk walk) {
  const ExponentialGates gates =
      exponential_gates(*call.parameter("input_gate"), *call.parameter("forget_gate"), call.state(2), call.cu_seqlens);
  walk.query = call.query;
  walk.key = weighted_rows(*call.key, gates.weight);
  walk.gate = gates.log_decay;
  const NormalizedWalk made = walk_with_z(call, walk);
  return {normalized_sums(made.sums, gates.least), {made.state, made.z, gates.last}};
}

// Keys and queries of twice the width, whose products are those of φ times the cosine of the distance in phase. The
// state that is given and returned has the phase of the last token, so that positions count from the call's first
// token.
Outcome phases(const Call& call, TokenWalk walk) {
  const at::Tensor horizon = call.parameter("horizon")->to(at::kDouble);
  const at::TensorOptions options = horizon.options().device(call.query.device());
  const at::ScalarType computed = call.query.scalar_type();
  const at::Tensor per_token = (std::numbers::pi / 2) / horizon.to(call.query.device());
  const c10::SymInt tokens = call.query.sym_size(2);
  at::Tensor positions = at::arange(tokens, options) + 1, lengths;
  if (call.cu_seqlens) {
    const PackedTokens packed(*call.cu_seqlens, tokens);
    positions = positions - packed.begins.index_select(0, packed.sequence).to(at::kDouble);
    lengths = (packed.ends - packed.begins).to(at::kDouble);
  } else {
    lengths = at::zeros({1}, options) + c10::SymInt(tokens);
  }
  const at::Tensor angles = per_token * positions;
  const at::Tensor cosines = angles.cos().to(computed), sines = angles.sin().to(computed);
  const bool relu = call.features == "relu";
  const auto turned = [&](const at::Tensor& x) { return turned_rows(relu ? x : call.mapped(x), cosines, sines, relu); };
  walk.query = turned(call.query);
  walk.key = turned(*call.key);
  Outcome outcome = one_walk(call, walk);
  const c10::SymInt width = walk.query.sym_size(3) / 2;
  for (at::Tensor& state : outcome.state) {
    at::Tensor angle = (per_token * lengths).view({-1, 1, 1});
    if (state.dim() == 4) angle = angle.unsqueeze(-1);
    const at::Tensor cosine = angle.cos().to(computed), sine = angle.sin().to(computed);
    const at::Tensor even = state.narrow_symint(2, 0, width), odd = state.narrow_symint(2, width, width);
    state = at::cat({cosine * even + sine * odd, cosine * odd - sine * even}, 2);
  }
  return outcome;
}

Outcome slots(const Call& call, TokenWalk walk) {
  const at::Tensor phi = *call.parameter("phi");
  const OptionalTensor decay = call.parameter("log_decay");
  walk.gate = std::nullopt;
  walk.query = call.query, walk.key = *call.key, walk.value = phi, walk.value_gate = decay;
  walk.initial_state = call.state(0);
  const auto [scores, keys] = token_walk(walk);
  walk.query = at::softmax(scores, -1), walk.key = phi, walk.value = call.value, walk.value_gate = std::nullopt;
  walk.gate = decay, walk.transition = decay ? "per_channel" : "none";
  walk.initial_state = call.state(1), walk.scale = 1;
  const auto [output, values] = token_walk(walk);
  return {output, {keys, values}};
}

Outcome delta_rule(const Call& call) {
  DeltaWalk walk;
  walk.query = call.query, walk.key = *call.key, walk.value = call.value;
  walk.beta = *call.parameter("beta"), walk.log_decay = call.parameter("log_decay");
  walk.initial_state = call.state(0), walk.cu_seqlens = call.cu_seqlens, walk.scale = call.scale;
  const auto [output, last] = delta_walk(walk);
  return {output, {last}};
}

Outcome elements(const Call& call) {
  StateSpace space;
  space.value = call.value, space.delta = *call.parameter("delta"), space.a = *call.parameter("a");
  if (call.law.has_query()) space.query = call.query;
  space.key = call.key;
  space.b = call.parameter("b"), space.c = call.parameter("c"), space.skip = call.parameter("skip");
  space.initial_state = call.state(0), space.cu_seqlens = call.cu_seqlens, space.scale = call.scale;
  const auto [output, last] = state_space(space);
  return {output, {last}};
}

Outcome run(const Call& call) {
  if (call.law.walks == Walks::delta) return delta_rule(call);
  if (call.law.walks == Walks::elements) return elements(call);
  TokenWalk walk;
  walk.value = call.value;
  walk.scale = call.scale;
  walk.cu_seqlens = call.cu_seqlens;
  walk.transition = transition_names[static_cast<int>(call.law.transition)];
  walk.gate = call.parameter(call.law.transition == Transition::constant ? "decay" : "log_decay");
  walk.value_gate = call.parameter("log_value_decay");
  walk.reads_before = call.law.read == Read::before_with_bonus;
  walk.initial_state = call.state(0);
  if (call.law.walks == Walks::phases) return phases(call, walk);
  if (call.law.walks == Walks::slots) return slots(call, walk);
  if (call.law.write == Write::key_by_input_gate) return exponential_writes(call, walk);
  return linear(call, walk);
}

std::string_view checked_features(const RecurrentLaw& law, std::string_view name) {
  const std::vector<std::string> known = feature_map_names();
  if (law.features != Features::asked) {
    if (name != "identity") refuse_recurrent("feature_map", "identity for " + std::string(law.name), std::string(name));
    return law.features == Features::relu ? "relu" : "identity";
  }
  if (std::find(known.begin(), known.end(), name) == known.end())
    refuse_recurrent("feature_map", expected_names(name, known), std::string(name));
  return name;
}

// Each parameter in the dtype that is computed in; a number as it is.
MechanismParameters checked_parameters(const RecurrentLaw& law, const at::Tensor& query, const at::Tensor& value,
                                       std::string_view features, const MechanismParameters& given) {
  const auto wanted_now = [&](const RecurrentParameter& parameter) {
    return parameter.name == "projection" ? features == "random_fourier" : parameter.required;
  };
  std::vector<std::string> names;
  for (const RecurrentParameter& parameter : law.parameters)
    if (parameter.name != "projection" || wanted_now(parameter)) names.emplace_back(parameter.name);
  for (const auto& [name, tensor] : given)
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse_recurrent("parameters of " + std::string(law.name),
                       names.empty()       ? "no parameter of its own"
                       : names.size() == 1 ? names.front()
                                           : expected_names(name, names),
                       name);
  MechanismParameters checked;
  std::optional<c10::SymInt> slots;
  for (const RecurrentParameter& parameter : law.parameters) {
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const auto& each) { return each.first == parameter.name; });
    if (found == given.end()) {
      if (wanted_now(parameter))
        refuse_recurrent(parameter.name, "a tensor (" + std::string(law.name) + " requires it)", "nothing");
      continue;
    }
    const at::Tensor& tensor = found->second;
    if (parameter.axes.empty()) {
      if (tensor.dim() != 0) refuse_recurrent(parameter.name, "a number", shape_text(tensor));
      check_recurrent_values(parameter.name, tensor, parameter.values);
      checked.emplace_back(found->first, tensor);
      continue;
    }
    check_recurrent_axes(parameter.name, tensor, query, value, parameter.axes, slots,
                         law.has_query() ? "query" : "value");
    if (parameter.axes.back() == 'S') slots = tensor.sym_size(3);
    // Those of the walk, where values are looked at, need no second look; but slots decay by another name there.
    if (law.write == Write::key_by_input_gate || law.walks == Walks::slots)
      check_recurrent_values(parameter.name, tensor, parameter.values);
    checked.emplace_back(found->first, tensor.to(computed_type(query)));
  }
  return checked;
}

// For the sizes that it has; what is missing is refused later.
at::Tensor given_or_empty(const MechanismParameters& parameters, std::string_view name, const at::Tensor& like) {
  for (const auto& [given, tensor] : parameters)
    if (given == name) return tensor;
  return at::zeros({0}, like.options());
}

void check_initial_state(const Call& call, const std::vector<at::Tensor>& given) {
  if (given.empty()) return;
  struct Part {
    const char* name;
    std::vector<c10::SymInt> sizes;
  };
  const c10::SymInt sequences = call.cu_seqlens ? call.cu_seqlens->sym_size(0) - 1 : call.query.sym_size(0);
  const c10::SymInt heads = call.query.sym_size(1), value_width = call.value.sym_size(3);
  c10::SymInt width = call.query.sym_size(3);
  if (call.features == "unit") width = width + 1;
  if (call.features == "random_fourier") width = call.parameter("projection")->sym_size(2) * 2;
  if (call.law.walks == Walks::phases) width = width * 2;
  std::vector<Part> parts;
  if (call.law.walks == Walks::slots) {
    const c10::SymInt slots = call.parameter("phi")->sym_size(3);
    parts = {{"K", {sequences, heads, width, slots}}, {"V", {sequences, heads, slots, value_width}}};
  } else {
    parts = {{"S", {sequences, heads, width, value_width}}};
    if (call.normalized) parts.push_back({"z", {sequences, heads, width}});
    if (call.law.normalizer == Normalizer::at_least_one) parts.push_back({"m", {sequences, heads}});
  }
  std::string names;
  for (std::size_t i = 0; i < parts.size(); ++i)
    names += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + std::string(parts[i].name);
  if (given.size() != parts.size())
    refuse_recurrent("initial_state",
                     std::to_string(parts.size()) + (parts.size() == 1 ? " tensor, " : " tensors, ") + names,
                     std::to_string(given.size()));
  for (std::size_t i = 0; i < parts.size(); ++i)
    check_recurrent_state(std::string("initial_state") + (i == 0 ? "" : " " + std::string(parts[i].name)), given[i],
                          call.query, parts[i].sizes);
}

}  // namespace

std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const OptionalTensor& query_, const OptionalTensor& key,
                                                          const at::Tensor& value, std::string_view mechanism,
                                                          const RecurrentOptions& options) {
  const RecurrentLaw& law = checked_recurrent_law(mechanism);
  const std::string name(law.name);
  const auto check_presence = [](const char* argument, const OptionalTensor& tensor, bool wanted,
                                 const std::string& without) {
    if (tensor.has_value() != wanted)
      refuse_recurrent(argument, wanted ? "a tensor" : "nothing (" + without + ")", tensor ? "a tensor" : "nothing");
  };
  check_presence("query", query_, law.has_query(), name + " has none");
  check_presence("key", key, law.has_key(), name + (law.has_query() ? " makes its own" : " has none"));
  const std::string_view features = checked_features(law, options.feature_map);
  if (options.normalize && law.normalizer != Normalizer::asked)
    refuse_recurrent("normalize", "False for " + name, "True");
  if (!options.causal && !law.may_see_all()) refuse_recurrent("causal", "True for " + name, "False");
  if (!options.causal && options.cu_seqlens)
    refuse_recurrent("cu_seqlens", "nothing beside causal=False", shape_text(*options.cu_seqlens));
  if (options.scale && !std::isfinite(*options.scale))
    refuse_recurrent("scale", "a finite number", std::to_string(*options.scale));
  check_recurrent(query_, key, value);
  if (query_) check_head_dim(*query_);
  const at::Tensor query = query_ ? *query_ : like_a_query(value, given_or_empty(options.parameters, "a", value));
  if (options.cu_seqlens) check_sequences(*options.cu_seqlens, query);

  const at::ScalarType computed = computed_type(query);
  const Call call{
      .law = law,
      .query = query_ ? query.to(computed) : query,
      .value = value.to(computed),
      .key = key ? OptionalTensor(key->to(computed)) : std::nullopt,
      .features = features,
      .causal = options.causal,
      .normalized = options.normalize || (law.normalizer != Normalizer::never && law.normalizer != Normalizer::asked),
      .scale = options.scale ? *options.scale
               : law.walks == Walks::elements
                   ? 1.0
                   : 1 / std::sqrt(static_cast<double>(query.sym_size(3).guard_int(__FILE__, __LINE__))),
      .cu_seqlens =
          options.cu_seqlens ? OptionalTensor(options.cu_seqlens->to(query.device(), at::kLong)) : std::nullopt,
      .initial_state = options.initial_state,
      .parameters = checked_parameters(law, query, value, features, options.parameters)};
  check_initial_state(call, options.initial_state);
  Outcome outcome = run(call);
  return {outcome.output.to(query.scalar_type()), std::move(outcome.state)};
}

}  // namespace cogwheel
