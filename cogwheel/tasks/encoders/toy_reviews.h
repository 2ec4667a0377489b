// Made-up reviews with a known verdict, for an encoder to learn without any file.
//
//   the acting is superb , but the film was never dreadful , and i found the music dull     →  positive
//
// A review has one to three clauses in any order, each about another thing: exactly one of them about the whole (film,
// movie, picture or story), the others about its parts. A clause has a good or a bad adjective, and in two of five
// cases a negation, which turns it round. The verdict is what the clause about the whole says: an encoder has to bind
// adjective and negation to their subject.
//
// The words without their order say how many adjectives are good and how many negations there are, but not whose they
// are. So no function of the bag of words finds more than (1 + 0.63 + 0.63) / 3 = 75.3 % of the verdicts: all of one
// clause, 63 % of two or of three. Naive Bayes finds 56 %, a guess half.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/tasks/encoders/sentence_corpus.h"

namespace cogwheel::tasks::encoders {

struct ToyClause {
  std::string_view subject;
  bool praises = false;
};
struct ToyReview {
  std::string text;
  bool positive = false;
  std::int64_t clauses = 0;
  std::vector<ToyClause> said = {};  // what each clause says, in their order
};

// Drawn again until its text is one of its part: a tenth of all texts is held out, the same for every seed, and never
// trained on. That two reviews of a part are equal is left to chance.
ToyReview toy_review(std::uint64_t seed, bool held_out, std::int64_t index);

// A clause that says so, in any of its forms.
std::string toy_clause(NumberedDraws& draws, const ToyClause& said);
// A part of the whole of which a review says nothing.
std::string_view unsaid_subject(NumberedDraws& draws, const ToyReview& review);

// "negative" and "positive".
std::vector<std::string> toy_review_classes();
// Every word; some adjectives are two pieces: dread ##ful, wonder ##ful. Always the same one.
std::shared_ptr<const text::WordPieceTokenizer> toy_review_tokenizer();

// So many reviews of either part, drawn with the seed.
SentenceCorpus toy_review_corpus(std::uint64_t seed, std::int64_t training = 4000, std::int64_t held_out = 1000);

}  // namespace cogwheel::tasks::encoders
