// How many words of translations are wrong, by the length of what was translated.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::labs {

// The least number of insertions, deletions and replacements that make one sentence of the other (Levenshtein).
std::int64_t word_edits(const std::vector<Token>& from, const std::vector<Token>& to);

struct WordErrors {
  std::int64_t sentences = 0, wrong_sentences = 0, words = 0, edits = 0;

  void add(const std::vector<Token>& found, const std::vector<Token>& truth);
  void add(const WordErrors& more);
  // Edits over words of the truth, which may be above 1; shares of nothing are 0.
  double rate() const;
  double right_sentences() const;
};

using ErrorsByLength = std::map<std::int64_t, WordErrors>;  // by words of the source

// Of the shortest or of the longest sources: of as many lengths as it takes to have a quarter of all sentences.
WordErrors quarter_of(const ErrorsByLength& errors, bool longest);

}  // namespace cogwheel::labs
