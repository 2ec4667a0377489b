#include "cogwheel/nn/mixers/recurrent_recipe.h"

#include <algorithm>
#include <cmath>

namespace cogwheel::nn {
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

// Of RWKV-6: log α = −exp(y), with y from −6 to −1 over the channels, in deeper layers later.
double rwkv6_decay(GatePlace place) {
  const std::int64_t all = place.heads * place.channels;
  const double share = between(0, 1, place.head * place.channels + place.channel, all);
  return -6 + 5 * std::pow(share, 0.7 + 1.3 * place.depth);
}

double rwkv6_bonus(GatePlace place) {
  const std::int64_t all = place.heads * place.channels, index = place.head * place.channels + place.channel;
  return place.depth * (1 - between(0, 1, index, all)) + 0.1 * static_cast<double>((index + 1) % 3 - 1);
}

// γ = 1 − 2^(−5 − h) = σ(y).
double decay_of_head(GatePlace place) { return std::log(std::exp2(5.0 + static_cast<double>(place.head)) - 1); }

constexpr GateRecipe retnet_gates[]{{.parameter = "decay", .map = GateMap::sigmoid, .initial = decay_of_head}};
constexpr GateRecipe mamba2_gates[]{
    {.parameter = "log_decay", .map = GateMap::step_times_constant, .multiplies_value = true, .initial = step_of_head}};
constexpr GateRecipe gla_gates[]{{.parameter = "log_decay", .map = GateMap::log_sigmoid_16, .rank = 16}};
constexpr GateRecipe hgrn2_gates[]{{.parameter = "log_decay", .map = GateMap::above_bound}};
constexpr GateRecipe gated_rfa_gates[]{{.parameter = "log_decay", .map = GateMap::log_sigmoid}};

constexpr GateRecipe rwkv6_gates[]{
    {.parameter = "log_decay", .map = GateMap::minus_exponential, .rank = 64, .tanh = true, .initial = rwkv6_decay},
    {.parameter = "bonus", .initial = rwkv6_bonus},
};
constexpr GateRecipe mlstm_gates[]{
    {.parameter = "input_gate"},
    {.parameter = "forget_gate", .initial = [](GatePlace place) { return between(3, 6, place.head, place.heads); }},
};
constexpr GateRecipe abc_gates[]{{.parameter = "phi"}};

double step_of_channel(GatePlace place) {
  return initial_step(place.head * place.channels + place.channel, place.heads * place.channels);
}

// a = −1, −2, … for the rows of a state.
double log_of_row(GatePlace place) { return std::log(static_cast<double>(place.row + 1)); }

constexpr GateRecipe mamba_gates[]{
    {.parameter = "delta", .map = GateMap::softplus, .rank = 64, .initial = step_of_channel},
    {.parameter = "a", .map = GateMap::minus_exponential, .initial = log_of_row},
};
// b times what a state gains in a step of about 0.01.
constexpr GateRecipe s4_gates[]{
    {.parameter = "delta", .map = GateMap::softplus, .initial = step_of_channel},
    {.parameter = "a", .map = GateMap::minus_exponential, .initial = log_of_row},
    {.parameter = "b", .initial = [](GatePlace) { return 0.01; }},
    {.parameter = "c", .initial = [](GatePlace) { return 1.0; }},
};
constexpr GateRecipe deltanet_gates[]{{.parameter = "beta", .map = GateMap::sigmoid}};
constexpr GateRecipe gated_deltanet_gates[]{
    {.parameter = "beta", .map = GateMap::sigmoid},
    {.parameter = "log_decay", .map = GateMap::step_times_constant, .initial = step_of_head},
};

constexpr RecurrentRecipe papers[]{
    // Katharopoulos et al. (2020)
    {.law = "linear_attention", .features = LayerFeatures::elu_plus_one},
    // Sun et al. (2023), with γ learned, and without the rotation of queries and keys
    {.law = "retnet", .head_norm = true, .output_gate = true, .gates = retnet_gates},
    // Dao, Gu (2024), with a key and a query for each head
    {.law = "mamba2",
     .scaled = false,
     .expansion = 2,
     .convolution = true,
     .head_norm = true,
     .output_gate = true,
     .skip = true,
     .gates = mamba2_gates},
    // Yang et al. (2024)
    {.law = "gla", .head_norm = true, .output_gate = true, .gates = gla_gates},
    // Peng et al. (2024)
    {.law = "rwkv6", .token_shift = true, .head_norm = true, .output_gate = true, .gates = rwkv6_gates},
    // Qin et al. (2024), with bounds that are not learned
    {.law = "hgrn2", .features = LayerFeatures::silu_of_query, .head_norm = true, .gates = hgrn2_gates},
    // Peng et al. (2021), the arc-cosine variant
    {.law = "gated_rfa", .features = LayerFeatures::random_of_units, .gates = gated_rfa_gates},
    // Beck et al. (2024), the block of the mLSTM
    {.law = "mlstm",
     .expansion = 2,
     .inner = true,
     .values_before_convolution = true,
     .head_norm = true,
     .output_gate = true,
     .skip = true,
     .gates = mlstm_gates},
    // Gu et al. (2022), real and diagonal
    {.law = "s4", .scaled = false, .skip = true, .gates = s4_gates},
    // Gu, Dao (2023)
    {.law = "mamba",
     .scaled = false,
     .expansion = 2,
     .inner = true,
     .shared_keys = true,
     .output_gate = true,
     .skip = true,
     .gates = mamba_gates},
    // Yang et al. (2024, "Parallelizing …"), with the SiLU of the convolution before keys and queries become units
    {.law = "deltanet",
     .features = LayerFeatures::unit,
     .convolution = true,
     .head_norm = true,
     .gates = deltanet_gates},
    // Yang, Kautz, Hatamizadeh (2024)
    {.law = "gated_deltanet",
     .features = LayerFeatures::unit,
     .convolution = true,
     .head_norm = true,
     .output_gate = true,
     .gates = gated_deltanet_gates},
    // Peng et al. (2022)
    {.law = "abc", .running_means = true, .gates = abc_gates},
};

const RecurrentRecipe* paper_of(const RecurrentLaw& law) {
  for (const RecurrentRecipe& recipe : papers)
    if (recipe.law == law.name) return &recipe;
  return nullptr;
}

GateRecipe suggested(const RecurrentParameter& parameter) {
  switch (parameter.values) {
    case Values::at_most_0:
      return {.parameter = parameter.name, .map = GateMap::log_sigmoid_16};
    case Values::at_least_0:
    case Values::above_0:
      return {.parameter = parameter.name, .map = GateMap::softplus, .initial = step_of_head};
    case Values::below_0:
      return {.parameter = parameter.name, .map = GateMap::minus_exponential, .initial = log_of_row};
    case Values::from_0_to_2:
      return {.parameter = parameter.name, .map = GateMap::sigmoid};
    case Values::above_0_to_1:
      return {.parameter = parameter.name, .map = GateMap::sigmoid, .initial = decay_of_head};
    default:
      break;
  }
  // At 0, neither what is written nor what reads it would ever learn.
  if (parameter.axes == "HDV") return {.parameter = parameter.name, .initial = [](GatePlace) { return 0.1; }};
  return {.parameter = parameter.name};
}

}  // namespace

RecurrentRecipe recipe_of(const RecurrentLaw& law, bool plain) {
  const RecurrentRecipe* paper = paper_of(law);
  if (paper != nullptr && !plain) return *paper;
  RecurrentRecipe recipe{.law = law.name};
  if (paper != nullptr) recipe.gates = paper->gates;
  if (law.walks == Walks::delta) recipe.features = LayerFeatures::unit;
  if (law.normalizer == Normalizer::always && law.features == Features::identity)
    recipe.features = LayerFeatures::positive;
  return recipe;
}

std::vector<GateRecipe> gates_of(const RecurrentLaw& law, const RecurrentRecipe& recipe, bool plain) {
  std::vector<GateRecipe> gates;
  for (const RecurrentParameter& parameter : law.parameters) {
    const auto row = std::find_if(recipe.gates.begin(), recipe.gates.end(),
                                  [&](const GateRecipe& gate) { return gate.parameter == parameter.name; });
    if (row != recipe.gates.end())
      gates.push_back(*row);
    else if (parameter.required && !parameter.axes.empty())
      gates.push_back(suggested(parameter));
    else
      continue;
    if (plain) gates.back().rank = 0;
  }
  return gates;
}

}  // namespace cogwheel::nn
