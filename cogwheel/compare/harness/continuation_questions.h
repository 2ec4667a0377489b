// Questions about a text that need nobody to write them: which words come next.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::compare {

struct ContinuationQuestion {
  std::string context;               // of `context_words` words
  std::vector<std::string> choices;  // of `choice_words` words each, with the white space before them
  std::int64_t label = 0;            // the choice that follows in the text; the others follow elsewhere
};

inline constexpr std::int64_t continuation_choices = 4, continuation_context_words = 32, continuation_choice_words = 4;

// `count` of them, at places of chance, the same for the same text and seed: question n is the same whatever the count.
// Throws UsageError for a text of too few words, or too few that differ.
std::vector<ContinuationQuestion> continuation_questions(std::string_view text, std::int64_t count, std::uint64_t seed);

}  // namespace cogwheel::compare
