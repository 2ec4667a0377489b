#include "cogwheel/research/labs/lecture/hopfield_network.h"

#include <gtest/gtest.h>

namespace cogwheel::labs {
namespace {

using Signs = std::vector<std::int32_t>;

// Σ_μ ξ_i^μ ξ_j^μ for i ≠ j, pattern by pattern.
std::vector<Signs> dense_weights(const HopfieldNetwork& network, std::int64_t neurons, std::int64_t patterns) {
  std::vector<Signs> weights(static_cast<std::size_t>(neurons), Signs(static_cast<std::size_t>(neurons)));
  for (std::int64_t number = 0; number < patterns; ++number) {
    const Signs pattern = network.pattern(number);
    for (std::size_t i = 0; i < pattern.size(); ++i)
      for (std::size_t j = 0; j < pattern.size(); ++j) weights[i][j] += i == j ? 0 : pattern[i] * pattern[j];
  }
  return weights;
}

Signs product(const std::vector<Signs>& weights, const Signs& state) {
  Signs fields(state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    for (std::size_t j = 0; j < state.size(); ++j) fields[i] += weights[i][j] * state[j];
  return fields;
}

TEST(HopfieldNetwork, FieldsAreTheProductWithTheHebbianMatrix) {
  for (const std::int64_t patterns : {1, 5, 64, 71}) {
    const HopfieldNetwork network(37, patterns, Draws(1, 2));
    const auto weights = dense_weights(network, 37, patterns);
    for (const std::int64_t number : {std::int64_t{0}, patterns - 1})
      EXPECT_EQ(network.fields(network.pattern(number)), product(weights, network.pattern(number)));
  }
}

TEST(HopfieldNetwork, SettlesWhereEverySignIsThatOfItsField) {
  constexpr std::int64_t neurons = 60, patterns = 20;  // too many to be recalled
  const HopfieldNetwork network(neurons, patterns, Draws(3, 4));
  const auto weights = dense_weights(network, neurons, patterns);
  bool moved = false;
  for (std::int64_t number = 0; number < patterns; ++number) {
    const Signs state = network.settled(network.pattern(number)), fields = product(weights, state);
    for (std::size_t i = 0; i < state.size(); ++i) EXPECT_GE(state[i] * fields[i], 0);
    moved = moved || state != network.pattern(number);
  }
  EXPECT_TRUE(moved);
}

TEST(HopfieldNetwork, RecallsOnePattern) {
  const HopfieldNetwork network(50, 1, Draws(5, 6));
  Signs state = network.pattern(0);
  for (std::size_t i = 0; i < 20; ++i) state[i] = -state[i];
  EXPECT_EQ(network.settled(state), network.pattern(0));
}

}  // namespace
}  // namespace cogwheel::labs
