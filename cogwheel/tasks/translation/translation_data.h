// What a translation is learned from: parallel files, or a toy language without end and with known alignments.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/tasks/translation/alignment_links.h"
#include "cogwheel/tasks/translation/parallel_corpus.h"
#include "cogwheel/tasks/translation/sentence_batch.h"
#include "cogwheel/tasks/translation/toy_translation.h"

namespace cogwheel::tasks::translation {

class TranslationData {
 public:
  virtual ~TranslationData() = default;

  virtual const text::SentenceTokenizer& tokenizer() const = 0;
  virtual std::string name() const = 0;
  virtual std::string sha256() const { return {}; }     // of files
  virtual std::int64_t bytes() const { return 0; }      // of files
  virtual std::int64_t sentences() const { return 0; }  // to train on; 0: without end
  virtual std::int64_t longest() const { return 0; }    // tokens of a sentence; 0: longer ones are left out
  virtual std::string dropped() const { return {}; }    // in one line, what is not learned from
  virtual std::string record() const { return {}; }     // of files (text/text_record.h)

  // The batch of a training step: it follows from the seed and the step alone.
  virtual SentenceBatch batch(std::uint64_t seed, std::int64_t step, std::int64_t sentences) const = 0;
  virtual const text::SentencePairs& held_out() const = 0;
  // What is translated and scored, line by line, empty and long ones too.
  virtual const ParallelText& test() const = 0;
  // The true links of each line of `test`; none are known for files.
  virtual std::span<const std::vector<WordLink>> test_links() const { return {}; }

  // The same for choosing settings: what was to be trained on, in part held out instead of what is held out here.
  virtual std::shared_ptr<const TranslationData> for_tuning() const = 0;
};

std::shared_ptr<const TranslationData> parallel_data(std::shared_ptr<const ParallelCorpus> corpus);
std::shared_ptr<const TranslationData> toy_data(const ToyLanguage& language);

}  // namespace cogwheel::tasks::translation
