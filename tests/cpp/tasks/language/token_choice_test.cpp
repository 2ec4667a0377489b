#include "cogwheel/tasks/language/token_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::language {
namespace {

// The probabilities that tokens have, by the order and the formulas of transformers, with a full sort.
std::vector<double> probabilities(std::vector<double> z, const std::vector<Token>& text,
                                  const runs::SamplingOptions& options) {
  std::vector<bool> penalized(z.size());
  for (const Token token : text) penalized[static_cast<std::size_t>(token)] = true;
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (penalized[i]) z[i] = z[i] < 0 ? z[i] * options.repetition_penalty : z[i] / options.repetition_penalty;
    z[i] /= options.temperature;
  }
  const double nothing = -std::numeric_limits<double>::infinity();
  const auto softmax = [&] {
    std::vector<double> p;
    double sum = 0;
    for (const double each : z) sum += std::exp(each);
    for (const double each : z) p.push_back(std::exp(each) / sum);
    return p;
  };
  std::vector<std::size_t> order(z.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return z[a] > z[b]; });
  if (options.top_k > 0 && options.top_k < std::ssize(z)) {
    const double least = z[order[static_cast<std::size_t>(options.top_k) - 1]];
    for (double& each : z)
      if (each < least) each = nothing;
  }
  std::vector<double> p = softmax();
  if (options.top_p < 1) {
    double above = 0;
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      if (rank > 0 && above >= options.top_p) z[order[rank]] = nothing;
      above += p[order[rank]];
    }
  }
  p = softmax();
  const double largest = *std::max_element(p.begin(), p.end());
  for (std::size_t i = 0; i < z.size(); ++i)
    if (p[i] < options.min_p * largest) z[i] = nothing;
  return softmax();
}

TEST(TokenChoice, DrawsWithTheProbabilitiesOfTheFormulas) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  for (const runs::SamplingOptions& given : std::vector<runs::SamplingOptions>{
           {},
           {.repetition_penalty = 1.7},
           {.temperature = 0.6},
           {.top_k = 5},
           {.top_p = 0.7},
           {.top_p = 0},
           {.min_p = 0.2},
           {.repetition_penalty = 1.3, .temperature = 1.4, .top_k = 9, .top_p = 0.8, .min_p = 0.1}}) {
    std::vector<float> logits(12);
    for (float& each : logits) each = normal(generator);
    const std::vector<Token> text = {2, 7, 2};
    const auto expected = probabilities({logits.begin(), logits.end()}, text, given);
    constexpr int draws = 4000;
    std::vector<int> counts(12);
    for (std::uint64_t number = 0; number < draws; ++number)
      ++counts[static_cast<std::size_t>(TokenChoice(given, number)(logits, text).token)];
    for (std::size_t token = 0; token < 12; ++token) {
      // Five standard deviations; a token that is left out is never drawn, nor one that is certain missed.
      const double p = expected[token];
      EXPECT_NEAR(counts[token], draws * p, 5 * std::sqrt(draws * p * (1 - p)) + 1e-9) << token;
    }
  }
}

// Parts of the vocabulary are ordered one after another.
TEST(TokenChoice, KeepsTheFewestTokensOfALargeVocabulary) {
  std::vector<float> logits(5000);
  std::mt19937 generator(4);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -0.002F * static_cast<float>(i);
  std::shuffle(logits.begin(), logits.end(), generator);
  const auto expected = probabilities({logits.begin(), logits.end()}, {}, {.top_p = 0.8});
  for (std::uint64_t number = 0; number < 300; ++number)
    EXPECT_GT(expected[static_cast<std::size_t>(TokenChoice({.top_p = 0.8}, number)(logits, {}).token)], 0);
}

TEST(TokenChoice, FollowsFromSeedNumberAndPlace) {
  const std::vector<float> logits(1000, 0.0F);
  const auto drawn = [&](std::uint64_t seed, std::uint64_t number, std::size_t place) {
    return TokenChoice({.seed = seed}, number)(logits, std::vector<Token>(place)).token;
  };
  EXPECT_EQ(drawn(1, 2, 3), drawn(1, 2, 3));
  EXPECT_NE(drawn(1, 2, 3), drawn(2, 2, 3));
  EXPECT_NE(drawn(1, 2, 3), drawn(1, 3, 3));
  EXPECT_NE(drawn(1, 2, 3), drawn(1, 2, 4));
}

TEST(TokenChoice, TellsLogProbabilitiesOfTheModel) {
  const std::vector<float> logits = {1, 3, 3, -2};
  const double total = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0));
  const ChosenToken chosen =
      TokenChoice({.repetition_penalty = 100, .temperature = 0, .likeliest = 3}, 0)(logits, std::vector<Token>{1});
  EXPECT_EQ(chosen.token, 2);
  EXPECT_NEAR(chosen.log_probability, 3 - total, 1e-12);
  ASSERT_EQ(chosen.likeliest.size(), 3u);
  EXPECT_EQ(chosen.likeliest[0].token, 1);
  EXPECT_EQ(chosen.likeliest[1].token, 2);
  EXPECT_EQ(chosen.likeliest[2].token, 0);
  EXPECT_NEAR(chosen.likeliest[2].log_probability, 1 - total, 1e-12);
  EXPECT_TRUE(std::isnan(TokenChoice({}, 0)(logits, {}).log_probability));
  EXPECT_THROW(TokenChoice({}, 0)(std::vector<float>{0, std::nanf("")}, {}), Error);
}

TEST(TokenChoice, DrawsOnlyTokensOfTheVocabulary) {
  const std::vector<float> logits = {1, 0, 3, 9};
  const double total = std::log(std::exp(1.0) + 1 + std::exp(3.0) + std::exp(9.0));
  const ChosenToken chosen =
      TokenChoice({.temperature = 0, .likeliest = 3, .vocabulary = 2}, 0)(logits, std::vector<Token>{3});
  EXPECT_EQ(chosen.token, 0);
  EXPECT_NEAR(chosen.log_probability, 1 - total, 1e-12);  // among all that the model knows
  EXPECT_EQ(chosen.likeliest.size(), 2u);
  for (std::uint64_t number = 0; number < 100; ++number)
    EXPECT_LT(TokenChoice({.repetition_penalty = 2, .vocabulary = 2}, number)(logits, std::vector<Token>{3}).token, 2);
}

}  // namespace
}  // namespace cogwheel::tasks::language
