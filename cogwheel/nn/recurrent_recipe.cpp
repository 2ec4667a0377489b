#include "cogwheel/nn/recurrent_recipe.h"

#include <cmath>

namespace cogwheel {
namespace {

// Of n heads or channels, from `first` to `last`.
constexpr double between(double first, double last, std::int64_t index, std::int64_t count) {
  return count < 2 ? first : first + (last - first) * static_cast<double>(index) / static_cast<double>(count - 1);
}

// softplus(y) = Δ.
double inverse_softplus(double step) { return std::log(std::expm1(step)); }

// The steps of Mamba: 0.001 to 0.1, evenly in their logarithm.
double initial_step(std::int64_t index, std::int64_t count) {
  return inverse_softplus(std::exp(between(std::log(0.001), std::log(0.1), index, count)));
}

double step_of_head(GatePlace place) { return initial_step(place.head, place.heads); }

// γ = 1 − 2^(−5 − h) = σ(y).
double decay_of_head(GatePlace place) { return std::log(std::exp2(5.0 + static_cast<double>(place.head)) - 1); }

constexpr GateRecipe retnet_gates[]{{.parameter = "decay", .map = GateMap::sigmoid, .initial = decay_of_head}};
constexpr GateRecipe mamba2_gates[]{
    {.parameter = "log_decay", .map = GateMap::step_times_constant, .initial = step_of_head}};
constexpr GateRecipe gla_gates[]{{.parameter = "log_decay", .map = GateMap::log_sigmoid_16, .rank = 16}};
constexpr GateRecipe hgrn2_gates[]{{.parameter = "log_decay", .map = GateMap::above_bound}};
constexpr GateRecipe gated_rfa_gates[]{{.parameter = "log_decay", .map = GateMap::log_sigmoid}};

constexpr RecurrentRecipe papers[]{
    // Katharopoulos et al. (2020)
    {.law = "linear_attention", .features = LayerFeatures::elu_plus_one},
    // Sun et al. (2023), with γ learned, and without the rotation of queries and keys
    {.law = "retnet", .head_norm = true, .output_gate = true, .gates = retnet_gates},
    // Dao, Gu (2024), with a key and a query for each head
    {.law = "mamba2",
     .expansion = 2,
     .convolution = true,
     .head_norm = true,
     .output_gate = true,
     .skip = true,
     .gates = mamba2_gates},
    // Yang et al. (2024)
    {.law = "gla", .head_norm = true, .output_gate = true, .gates = gla_gates},
    // Qin et al. (2024), with bounds that are not learned
    {.law = "hgrn2", .features = LayerFeatures::silu_of_query, .head_norm = true, .gates = hgrn2_gates},
    // Peng et al. (2021), the arc-cosine variant
    {.law = "gated_rfa", .features = LayerFeatures::random_of_units, .gates = gated_rfa_gates},
};

GateRecipe suggested(const RecurrentParameter& parameter) {
  switch (parameter.values) {
    case Values::at_most_0:
      return {.parameter = parameter.name, .map = GateMap::log_sigmoid_16};
    case Values::above_0:
      return {.parameter = parameter.name, .map = GateMap::softplus, .initial = step_of_head};
    case Values::above_0_to_1:
      return {.parameter = parameter.name, .map = GateMap::sigmoid, .initial = decay_of_head};
    default:
      return {.parameter = parameter.name};
  }
}

}  // namespace

RecurrentRecipe recipe_of(const RecurrentLaw& law, bool plain) {
  if (!plain)
    for (const RecurrentRecipe& recipe : papers)
      if (recipe.law == law.name) return recipe;
  const bool divides = law.normalized == Choice::always && law.feature_map == Choice::never;
  return {.law = law.name, .features = divides ? LayerFeatures::positive : LayerFeatures::as_they_are};
}

std::vector<GateRecipe> gates_of(const RecurrentLaw& law, const RecurrentRecipe& recipe) {
  std::vector<GateRecipe> gates;
  for (const RecurrentParameter& parameter : law.parameters) {
    bool described = false;
    for (const GateRecipe& gate : recipe.gates)
      if (gate.parameter == parameter.name) gates.push_back(gate), described = true;
    if (!described && parameter.required) gates.push_back(suggested(parameter));
  }
  return gates;
}

}  // namespace cogwheel
