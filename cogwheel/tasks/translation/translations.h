// Sentences translated by a model, and what is to be said of them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/runs/inspection.h"
#include "cogwheel/tasks/translation/alignment_links.h"
#include "cogwheel/tasks/translation/beam_search.h"
#include "cogwheel/tasks/translation/translation_data.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::tasks::translation {

// Line by line; an empty line stays empty. `cut` is told the number, from 0, of each line that was longer than the
// model's context.
std::vector<std::string> translate(Translator& model, const text::SentenceTokenizer& tokenizer,
                                   std::span<const std::string> lines, const BeamOptions& options,
                                   const std::function<void(std::size_t)>& cut = {});

// The same with the links between the words of each line and of its translation, by source word: those whose pieces
// links_of connects, by the mean over heads of the weights of `layer`, or of the model's own choice, while it makes the
// translation. Throws UsageError where the model aligns nothing.
struct AlignedTranslation {
  std::string text;
  std::vector<WordLink> links;
};
std::vector<AlignedTranslation> translate_aligned(Translator& model, const text::SentenceTokenizer& tokenizer,
                                                  std::span<const std::string> lines, const BeamOptions& options,
                                                  std::optional<std::int64_t> layer = {},
                                                  const std::function<void(std::size_t)>& cut = {});

// The word that each token is a part of, from 0; a ▁ alone is part of the one before it.
std::vector<std::int64_t> words_of_tokens(const text::SentenceTokenizer& tokenizer, std::span<const Token> tokens);

// The weights of the true translation of each source, [target tokens, source tokens] of the mean over heads, the end
// of both left out. Empty where either is longer than the model reads.
struct SentenceWeights {
  std::vector<float> weights;
  std::int64_t targets = 0, sources = 0;
};
std::vector<SentenceWeights> weights_of(Translator& model, const text::SentenceTokenizer& tokenizer,
                                        const ParallelText& text, std::optional<std::int64_t> layer = {});

// Scores of translations of the first `most` lines of the test, the alignment error where links are known, examples,
// and maps of the least monotonic sentences.
runs::Inspection show_translations(Translator& model, const TranslationData& data, std::int64_t most,
                                   const BeamOptions& options);

}  // namespace cogwheel::tasks::translation
