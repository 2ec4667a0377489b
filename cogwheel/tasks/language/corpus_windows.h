// Windows of prepared corpora, as rows of a batch.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/batch.h"
#include "cogwheel/tasks/language/corpus_mixture.h"
#include "cogwheel/text/prepared/prepared_corpus.h"

namespace cogwheel::tasks::language {

struct CorpusData {
  std::vector<std::shared_ptr<const text::PreparedCorpus>> corpora;  // one at least, all of one tokenizer
  std::vector<double> weights = {};                                  // none: by their tokens to train on
  bool documents = false;             // each document of a window sees only itself; else a window is one text
  std::int64_t evaluated_tokens = 0;  // of those that are evaluated, at most; 0: all
  bool for_tuning = false;            // the last tenth of the windows to train on takes the place of those held out
};

// A side of a corpus is cut into windows of `context` tokens, one after the other; the targets are the tokens after
// them, so that one token more is read. With `documents`, the last token of a document has no target and positions
// begin again after it: a document is cut where a window ends and goes on in the next, as one of its own.
class CorpusWindows {
 public:
  // Throws Error that names a corpus with too few tokens for a window on both sides.
  CorpusWindows(CorpusData data, std::int64_t context, std::uint64_t seed);

  // The windows that are seen as numbers `first` and on since the start of training: inputs and targets [count,
  // context], and positions with `documents`. A pure function of these numbers, the seed and the corpora: each corpus
  // has all its windows in an order of chance, then all in another, and so on, and corpora take turns as CorpusMixture
  // says. Throws Error where a corpus is damaged.
  runs::Batch rows(std::int64_t first, std::int64_t count) const;

  // What is evaluated, always the same: of each corpus as many windows as its weight says, if it has them, evenly
  // spread; of all these, unless `tokens` is 0, only as many as hold so many tokens, evenly spread again.
  runs::Batch evaluated_rows(std::int64_t tokens = 0) const;
  std::int64_t evaluated_windows(std::int64_t tokens = 0) const;

  std::int64_t training_windows(std::int64_t corpus) const { return training_[static_cast<std::size_t>(corpus)].count; }
  std::int64_t context() const { return context_; }
  std::uint64_t seed() const { return seed_; }

 private:
  // Windows of a side, counted from 0.
  struct Range {
    const text::CorpusPart* part;
    std::int64_t first, count;
  };
  struct Window {
    const text::CorpusPart* part;
    std::int64_t start;  // a token
  };
  Window training_window(std::int64_t number) const;
  runs::Batch filled(const std::vector<Window>& windows) const;

  CorpusData data_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::vector<Range> training_, evaluated_;  // by corpus
  CorpusMixture mixture_;
  std::vector<Window> evaluated_windows_;
};

}  // namespace cogwheel::tasks::language
