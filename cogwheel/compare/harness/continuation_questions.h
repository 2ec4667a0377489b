// Questions about a text that need nobody to write them: which words come next.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::compare {

struct ContinuationQuestion {
  std::string context;               // of `continuation_context_words` words
  std::vector<std::string> choices;  // of `continuation_choice_words` each, with the white space before them
  std::int64_t label = 0;            // the choice that follows in the text; the others follow elsewhere
};

inline constexpr std::int64_t continuation_choices = 4, continuation_context_words = 32, continuation_choice_words = 4;

// `count` of them, at random places, the same for the same text and seed: question n is the same whatever the count.
// Throws UsageError for a text of too few words, or too few that differ.
std::vector<ContinuationQuestion> continuation_questions(std::string_view text, std::int64_t count, std::uint64_t seed);

// The part that two texts share, cut out of one longer text at places that may differ a little: what one begins with
// lies in the other, or the other way round, and they go on alike. Whole words; empty: they share nothing of the kind.
std::string shared_text(std::string_view one, std::string_view other);

}  // namespace cogwheel::compare
