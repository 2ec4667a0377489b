// cogwheel::recurrent: the checks of a call, whatever its law.
#include "cogwheel/ops/recurrent/recurrent.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/ops/recurrent/feature_maps.h"
#include "cogwheel/ops/recurrent/law_call.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/state_space.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

std::string_view checked_features(const RecurrentLaw& law, std::string_view name) {
  const std::vector<std::string> known = feature_map_names();
  if (law.features != Features::asked) {
    if (name != "identity") refuse_recurrent("feature_map", "identity for " + std::string(law.name), std::string(name));
    return "identity";
  }
  if (std::find(known.begin(), known.end(), name) == known.end())
    refuse_recurrent("feature_map", expected_names(name, known), std::string(name));
  return name;
}

// Whether the walk as it stands takes it.
bool is_decay_of_walk(const RecurrentLaw& law, std::string_view name) {
  return name == "log_value_decay" || (law.transition != Transition::none && name == decay_name(law.transition));
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
                         law.has_query ? "query" : "value");
    if (parameter.axes.back() == 'S') slots = tensor.sym_size(3);
    // Those of the walk, where values are looked at, need no second look.
    if (law.walks == Walks::one && !is_decay_of_walk(law, parameter.name))
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

// The sizes of a part of a state, of one for each sequence and head.
std::vector<c10::SymInt> sizes_of_part(const RecurrentCall& call, std::string_view axes) {
  const c10::SymInt sequences = call.cu_seqlens ? call.cu_seqlens->sym_size(0) - 1 : call.query.sym_size(0);
  std::vector<c10::SymInt> sizes{sequences, call.query.sym_size(1)};
  std::int64_t times = 1;
  for (const char axis : axes) {
    if (axis == '2') {
      times = 2;
      continue;
    }
    sizes.push_back((axis == 'D' ? call.feature_width() : axis == 'V' ? call.value.sym_size(3) : call.slots()) * times);
    times = 1;
  }
  return sizes;
}

void check_initial_state(const RecurrentCall& call, const std::vector<at::Tensor>& given) {
  if (given.empty()) return;
  const std::span<const StatePart> parts = parts_of_state(call.law, call.normalized);
  std::string names;
  for (std::size_t i = 0; i < parts.size(); ++i)
    names += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + std::string(parts[i].name);
  if (given.size() != parts.size())
    refuse_recurrent("initial_state",
                     std::to_string(parts.size()) + (parts.size() == 1 ? " tensor, " : " tensors, ") + names,
                     std::to_string(given.size()));
  for (std::size_t i = 0; i < parts.size(); ++i)
    check_recurrent_state(std::string("initial_state") + (i == 0 ? "" : " " + std::string(parts[i].name)), given[i],
                          call.query, sizes_of_part(call, parts[i].axes));
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
  check_presence("query", query_, law.has_query, name + " has none");
  check_presence("key", key, law.has_key, name + (law.has_query ? " makes its own" : " has none"));
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
  const RecurrentCall call{
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
  RecurrentOutcome outcome = outcome_of_law(call);
  return {outcome.output.to(query.scalar_type()), std::move(outcome.state)};
}

}  // namespace cogwheel::ops
