// The search for the most probable sequence of tokens that keeps the best few of each length: what both translation and
// language models do with the probabilities of next tokens.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::text {

struct Hypothesis {
  std::vector<Token> tokens;  // without the end
  double log_probability = 0;
  bool ended = false;  // by the token that ends, not by its length
};

struct NextToken {
  Token token;
  double log_probability;
};

class BeamSearch {
 public:
  // longest[s] tokens of a hypothesis of source s, its end included, at least 1. A hypothesis of n tokens, its end
  // included, is worth log p / n^penalty. Without `end` all go on to their length.
  BeamSearch(std::span<const std::int64_t> longest, std::optional<Token> end, std::int64_t beam, double penalty);

  // One row of the model for each open hypothesis, source by source: the row of the step before that it continues, and
  // its last token.
  std::vector<std::int64_t> parents, last_tokens;

  // The most probable next tokens of each open hypothesis, best first: at least beam + 1, or all that there are.
  // Returns whether any goes on.
  bool advance(std::span<const std::vector<NextToken>> likeliest);
  // The best of each source.
  std::vector<Hypothesis> results();

 private:
  // The hypotheses of one source: those that go on, and the best that has ended.
  struct Beam {
    std::vector<Hypothesis> open{{}};
    std::optional<Hypothesis> best;
    double best_worth = -std::numeric_limits<double>::infinity();
    std::int64_t longest = 0, ended = 0;
    bool done = false;
  };
  struct Candidate {
    std::size_t parent = 0;
    Token token = 0;
    double log_probability = 0;
  };

  double worth(double log_probability, std::size_t tokens) const;
  void consider(Beam& beam, const Hypothesis& hypothesis, bool ended);
  void continue_with(Beam& beam, const std::vector<Candidate>& candidates, std::int64_t first_row);
  bool settled(const Beam& beam) const;

  std::optional<Token> end_;
  std::int64_t width_;
  double penalty_;
  std::vector<Beam> beams_;
};

}  // namespace cogwheel::text
