// Made-up pairs of sentences: does the second follow from the first?
//
//   the acting is superb , but the film was never dreadful    the film is good       →  entailment
//                                                             i found the acting not funny  →  contradiction
//                                                             the music is clever    →  neutral
//
// The first is a review (toy_reviews.h), the second a clause about one of its subjects that says the same or the
// opposite, or about one that it does not name. Both have adjectives, negations and degrees of their own. The three are
// drawn alike often.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/tasks/encoders/sentence_corpus.h"

namespace cogwheel::tasks::encoders {

struct ToyPair {
  std::string first, second;
  std::int64_t label = 0;  // of toy_pair_classes
};

// Held-out pairs have first sentences that training never shows.
ToyPair toy_pair(std::uint64_t seed, bool held_out, std::int64_t index);
// "contradiction", "entailment", "neutral".
std::vector<std::string> toy_pair_classes();
// So many pairs of either part, drawn with the seed, with the pieces of toy reviews.
SentenceCorpus toy_pair_corpus(std::uint64_t seed, std::int64_t training = 16000, std::int64_t held_out = 1000);

}  // namespace cogwheel::tasks::encoders
