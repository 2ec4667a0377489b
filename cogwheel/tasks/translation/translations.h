// Sentences translated by a model, and what is to be said of them.
#pragma once
#include <cstdint>
#include <functional>
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
std::vector<std::string> translate(SequenceToSequence& model, const text::SentenceTokenizer& tokenizer,
                                   std::span<const std::string> lines, const BeamOptions& options,
                                   const std::function<void(std::size_t)>& cut = {});

// The weights of the true translation of each source, [target tokens, source tokens] of the mean over heads, the end
// of both left out.
struct SentenceWeights {
  std::vector<float> weights;
  std::int64_t targets = 0, sources = 0;
};
std::vector<SentenceWeights> weights_of(SequenceToSequence& model, const text::SentenceTokenizer& tokenizer,
                                        const ParallelText& text);

// Scores of translations of the first `most` lines of the test, the alignment error where links are known, examples,
// and maps of the least monotonic sentences.
runs::Inspection show_translations(SequenceToSequence& model, const TranslationData& data, std::int64_t most,
                                   const BeamOptions& options);

}  // namespace cogwheel::tasks::translation
