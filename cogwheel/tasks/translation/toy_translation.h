// A small language made up for translation, with known alignments: sentences of English words, drawn without end, and
// their translation into another order. Adjectives stand behind their noun in reverse order, the verb at the end. "the"
// and the particle of a verb ("waits for") have no word of their own; some nouns and verbs have two.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/tasks/translation/alignment_links.h"
#include "cogwheel/tasks/translation/parallel_corpus.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::tasks::translation {

struct ToyLanguage {
  static constexpr Range<std::int64_t> distances{0, 64};

  // So many words at the end of each source sentence, which say where, stand first in the translation: all words before
  // them move by as many places. Without them, only verbs move far, behind their object, and the others by a few.
  std::int64_t distance = 0;

  // No sentence or translation has more words.
  std::int64_t longest() const { return 19 + distance + distance / 3; }
};

struct ToySentence {
  std::vector<std::string> source, target;  // words
  std::vector<WordLink> links;              // by target word; those of words that merge into another's are not sure
};

// Sentences of training and of evaluation are drawn apart; that two of them are equal is left to chance. A twelfth has
// the shortest form, of which there are 36,864: after 400,000 sentences of training with distance 0 about one held-out
// sentence of twenty was met.
enum class ToyPart : std::uint64_t { training, held_out, test };

ToySentence toy_sentence(const ToyLanguage& language, std::uint64_t seed, ToyPart part, std::int64_t index);

// Consecutive sentences as tokens of toy_tokenizer.
text::SentencePairs toy_pairs(const ToyLanguage& language, std::uint64_t seed, ToyPart part, std::int64_t first,
                              std::int64_t count);

// Every word of both sides; always the same one.
std::shared_ptr<const text::SentenceTokenizer> toy_tokenizer();

}  // namespace cogwheel::tasks::translation
