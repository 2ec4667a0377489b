#include "cogwheel/tasks/encoders/toy_pairs.h"

#include <algorithm>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/random.h"
#include "cogwheel/tasks/encoders/toy_reviews.h"

namespace cogwheel::tasks::encoders {
namespace {

constexpr std::uint32_t pair_stream = stream_named("pair");  // 1 more for what is held out
constexpr std::size_t contradiction = 0, neutral = 2;

}  // namespace

ToyPair toy_pair(std::uint64_t seed, bool held_out, std::int64_t index) {
  const ToyReview review = toy_review(seed, held_out, index);
  NumberedDraws draws(seed, pair_stream + (held_out ? 1 : 0), static_cast<std::uint64_t>(index));
  const std::size_t label = draws.below(toy_pair_classes().size());
  ToyClause said = review.said[draws.below(review.said.size())];
  if (label == contradiction) said.praises = !said.praises;
  if (label == neutral) said = {unsaid_subject(draws, review), draws.with_probability(0.5)};
  return {review.text, toy_clause(draws, said), static_cast<std::int64_t>(label)};
}

std::vector<std::string> toy_pair_classes() { return {"contradiction", "entailment", "neutral"}; }

SentenceCorpus toy_pair_corpus(std::uint64_t seed, std::int64_t training, std::int64_t held_out) {
  SentenceCorpus corpus;
  corpus.name = "toy pairs";
  corpus.tokenizer = toy_review_tokenizer();
  corpus.classes = toy_pair_classes();
  corpus.two_sentences = true;
  Sha256 all;
  const auto add = [&](SentenceRows& rows, bool is_held_out, std::int64_t count) {
    for (std::int64_t index = 0; index < count; ++index) {
      const ToyPair pair = toy_pair(seed, is_held_out, index);
      rows.tokens.add(corpus.tokenizer->encode(pair.first), corpus.tokenizer->encode(pair.second), index);
      rows.labels.push_back(pair.label);
      rows.texts.push_back(pair.first + " " + pair.second);
      const std::string line = pair.first + "\t" + pair.second + "\n";
      all.add(line);
      corpus.bytes += std::ssize(line);
      corpus.longest = std::max(corpus.longest, rows.length(index));
    }
  };
  add(corpus.training, false, training);
  add(corpus.held_out, true, held_out);
  corpus.sha256 = all.digits();
  return corpus;
}

}  // namespace cogwheel::tasks::encoders
