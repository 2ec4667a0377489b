// cogwheel::recurrent: what a law makes of keys, queries and the walk's sums, in ATen's operators around the walk.
#include "cogwheel/ops/recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include <cmath>

#include "cogwheel/core/nearest_names.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/recurrent_checks.h"

namespace cogwheel {
namespace {

struct FeatureMap {
  std::string_view name;
  at::Tensor (*of)(const at::Tensor&);
};

const FeatureMap feature_maps[] = {
    {"identity", [](const at::Tensor& x) { return x; }},
    // exp(x) below 0, where elu + 1 would lose it beside 1.
    {"elu_plus_one", [](const at::Tensor& x) { return x.clamp_max(0).exp() + x.relu(); }},
    {"relu", [](const at::Tensor& x) { return x.relu(); }},
    {"squared_relu", [](const at::Tensor& x) { return x.relu().square(); }},
    {"exp", [](const at::Tensor& x) { return x.exp(); }},
};

const FeatureMap& checked_feature_map(const RecurrentLaw& law, std::string_view name) {
  if (law.feature_map == Choice::never && name != feature_maps[0].name)
    refuse_recurrent("feature_map", "identity for " + std::string(law.name), std::string(name));
  std::vector<std::string> known;
  for (const FeatureMap& map : feature_maps) {
    if (map.name == name) return map;
    known.emplace_back(map.name);
  }
  refuse_recurrent("feature_map", expected_names(name, known), std::string(name));
}

std::optional<at::Tensor> checked_gate(const RecurrentLaw& law, const MechanismParameters& parameters) {
  const std::string wanted(law.gate());
  for (const auto& [name, tensor] : parameters)
    if (name != wanted)
      refuse_recurrent("parameters of " + std::string(law.name), wanted.empty() ? "no parameter of its own" : wanted,
                       name);
  if (wanted.empty()) return std::nullopt;
  if (parameters.empty()) refuse_recurrent(wanted, "a tensor (" + std::string(law.name) + " requires it)", "nothing");
  return parameters.front().second;
}

// S and z as one state, whose last column z is.
std::optional<at::Tensor> checked_initial_state(const std::vector<at::Tensor>& given, bool normalized,
                                                const at::Tensor& query, const at::Tensor& value) {
  if (given.empty()) return std::nullopt;
  if (given.size() != (normalized ? 2 : 1))
    refuse_recurrent("initial_state", normalized ? "2 tensors, S and z" : "1 tensor, S", std::to_string(given.size()));
  const std::vector<c10::SymInt> of_z{query.sym_size(0), query.sym_size(1), query.sym_size(3)};
  std::vector<c10::SymInt> of_s = of_z;
  of_s.push_back(value.sym_size(3));
  check_recurrent_state("initial_state", given[0], query, of_s);
  if (!normalized) return given[0];
  check_recurrent_state("initial_state z", given[1], query, of_z);
  return at::cat({given[0], given[1].unsqueeze(-1)}, -1);
}

// numerator / denominator, and 0 where the latter is 0.
at::Tensor quotient_or_zero(const at::Tensor& numerator, const at::Tensor& denominator) {
  const at::Tensor none = denominator.eq(0);
  return (numerator / denominator.masked_fill(none, 1)).masked_fill(none, 0);
}

std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent_operator(
    const at::Tensor& query, const std::optional<at::Tensor>& key, const at::Tensor& value, c10::string_view mechanism,
    std::optional<double> scale, at::TensorList initial_state, at::TensorList parameters,
    const std::vector<std::string>& parameter_names, c10::string_view feature_map, bool normalize) {
  if (parameters.size() != parameter_names.size())
    refuse_recurrent("parameter_names", std::to_string(parameters.size()) + " names",
                     std::to_string(parameter_names.size()));
  RecurrentOptions options{.scale = scale,
                           .initial_state = initial_state.vec(),
                           .feature_map = {feature_map.data(), feature_map.size()},
                           .normalize = normalize};
  for (std::size_t i = 0; i < parameters.size(); ++i)
    options.parameters.emplace_back(parameter_names[i], parameters[i]);
  return recurrent(query, key, value, {mechanism.data(), mechanism.size()}, options);
}

}  // namespace

std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const at::Tensor& query, const std::optional<at::Tensor>& key,
                                                          const at::Tensor& value, std::string_view mechanism,
                                                          const RecurrentOptions& options) {
  const RecurrentLaw& law = checked_recurrent_law(mechanism);
  if (key.has_value() != law.has_key())
    refuse_recurrent("key", law.has_key() ? "a tensor" : "nothing (" + std::string(law.name) + " makes its own)",
                     key ? "a tensor" : "nothing");
  const FeatureMap& map = checked_feature_map(law, options.feature_map);
  if (options.normalize && law.normalized == Choice::never)
    refuse_recurrent("normalize", "False for " + std::string(law.name), "True");
  if (options.scale && !std::isfinite(*options.scale))
    refuse_recurrent("scale", "a finite number", std::to_string(*options.scale));
  const bool normalized = law.normalized == Choice::always || options.normalize;
  std::optional<at::Tensor> gate = checked_gate(law, options.parameters);
  check_recurrent(law, query, key, value, gate);
  std::optional<at::Tensor> state = checked_initial_state(options.initial_state, normalized, query, value);

  const at::ScalarType computed = computed_type(query);
  if (gate) gate = gate->to(computed);
  const auto complement = [&] { return gate->expm1().neg(); };  // 1 − α
  at::Tensor q = map.of(query.to(computed)), k = law.has_key() ? map.of(key->to(computed)) : complement();
  if (law.write == Write::key_by_complement) k = k * complement().unsqueeze(-1);
  at::Tensor v = value.to(computed);
  // z obeys the law of S for v = 1: one more column.
  if (normalized) v = at::cat({v, at::ones_symint({v.sym_size(0), v.sym_size(1), v.sym_size(2), 1}, v.options())}, -1);
  const double scale = options.scale
                           ? *options.scale
                           : 1 / std::sqrt(static_cast<double>(query.sym_size(3).guard_int(__FILE__, __LINE__)));
  const auto [sums, last] = operators::token_walk(q, k, v, gate, state, {mechanism.data(), mechanism.size()}, scale);
  if (!normalized) return {sums.to(query.scalar_type()), {last}};
  const c10::SymInt width = value.sym_size(3);
  const at::Tensor output = quotient_or_zero(sums.narrow_symint(-1, 0, width), sums.narrow_symint(-1, width, 1));
  return {output.to(query.scalar_type()),
          {last.narrow_symint(-1, 0, width).contiguous(), last.select_symint(-1, width).contiguous()}};
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "recurrent(Tensor query, Tensor? key, Tensor value, str mechanism, *, float? scale=None, Tensor[] "
      "initial_state, Tensor[] parameters, str[] parameter_names, str feature_map='identity', bool "
      "normalize=False) -> (Tensor output, Tensor[] state)",
      recurrent_operator);
}

// As in library.cpp: vmap makes a fallback for the walk alone.
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) { library.impl("recurrent", recurrent_operator); }

}  // namespace cogwheel
