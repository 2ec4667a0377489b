// Which token follows, of the logits of all.
//
// Tokens from SamplingOptions::vocabulary on, which no text has, are left out first. Of logits z, in this order, as
// transformers' processors and warpers have it:
//   repetition penalty r   z_t > 0: z_t / r, else z_t r, of every token t of the text so far, the prompt's too
//                          (Keskar et al., "CTRL", 2019, with the sign that transformers gave it)
//   temperature T          z / T; with T = 0 the likeliest token is taken, the lowest among equals, and the rest is
//   idle top-k                  tokens below the k-th largest z are left out; those equal to it stay top-p from the
//   likeliest on, tokens stay while those before them have less probability than p;
//                          the likeliest always does (Holtzman et al. 2020)
//   min-p                  tokens with less than p times the probability of the likeliest are left out
// Probabilities are those of what is left. Then one is drawn, by a number that follows from the seed, the number of the
// sequence and the place of the token in its text, not from what else is drawn.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/runs/sampler.h"

namespace cogwheel::tasks::language {

struct TokenProbability {
  Token token;
  double log_probability;
};

struct ChosenToken {
  Token token = 0;
  // As the model says, before any option: natural logarithms. NaN where they were not asked for.
  double log_probability;
  std::vector<TokenProbability> likeliest = {};  // the most probable first; as many as SamplingOptions::likeliest
};

class TokenChoice {
 public:
  // `number` is that of the sequence. The options must be checked.
  TokenChoice(const runs::SamplingOptions& options, std::uint64_t number) : options_(options), number_(number) {}

  // The token after `text`. Throws Error where a logit is NaN or infinite.
  ChosenToken operator()(std::span<const float> logits, std::span<const Token> text);

 private:
  Token drawn(std::uint64_t place);
  void keep_likeliest(std::int64_t count);
  void keep_probability(double probability);

  runs::SamplingOptions options_;
  std::uint64_t number_;
  // Working memory: what may be drawn.
  std::vector<float> values_;
  std::vector<Token> candidates_;
  std::vector<double> weights_;
};

// The k likeliest of the logits with their log-probabilities, the lower token first among equals; only of the tokens
// below `vocabulary`, unless that is 0. Probabilities are those among all.
std::vector<TokenProbability> likeliest_tokens(std::span<const float> logits, std::int64_t k,
                                               std::int64_t vocabulary = 0);

// log Σ exp z
double log_total(std::span<const float> logits);

}  // namespace cogwheel::tasks::language
