// How good translations are: BLEU and chrF by Python's sacrebleu, so that they compare with published ones.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::tasks::translation {

// With the interval in which 95 % of sacrebleu's bootstrap resamples lie.
struct TranslationScore {
  double score = 0, low = 0, high = 0;
  std::string signature;  // how it was computed, as sacrebleu says it
};

// BLEU of the sentences whose source has so many words.
struct ScoreByLength {
  std::int64_t shortest = 0, longest = 0, sentences = 0;
  TranslationScore bleu;
};

struct TranslationScores {
  TranslationScore bleu, chrf;
  std::vector<ScoreByLength> by_length;  // in rising order
};

// Scores, or the reason why there are none, in one line: the Python of the environment lacks sacrebleu, say.
struct TranslationScoring {
  std::optional<TranslationScores> scores;
  std::string problem;
};

// Of translations, their references and the lengths of their sources, in the same order. Sentences are parted by length
// into `groups` groups of about as many sentences each; fewer where lengths are few.
TranslationScoring translation_scores(std::span<const std::string> references, std::span<const std::string> hypotheses,
                                      std::span<const std::int64_t> source_lengths, std::int64_t groups = 5);

// The words of a sentence: what white space parts.
std::int64_t word_count(std::string_view text);

}  // namespace cogwheel::tasks::translation
