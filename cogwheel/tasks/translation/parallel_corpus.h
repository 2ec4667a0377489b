// Sentences and their translations: files of which a line of one is the translation of the same line of the other.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/text/corpus.h"
#include "cogwheel/text/sentence_pairs.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::tasks::translation {

// A source and a target file, .gz or not; or neither.
struct ParallelFiles {
  std::filesystem::path source = {}, target = {};
  bool none() const { return source.empty() && target.empty(); }
};

// The lines of both, of which there are as many.
struct ParallelText {
  std::vector<std::string> source = {}, target = {};
};

struct ParallelOptions {
  static constexpr Range<std::int64_t> vocabularies{16, 1 << 20}, lengths{1, 1 << 16};

  ParallelFiles training = {};
  ParallelFiles held_out =
      {};                   // none: a tenth of the training pairs, at most 1,000, by their source (held_out_tenth.h)
  ParallelFiles test = {};  // none: translations of the held-out part are scored
  std::int64_t vocabulary = 8000;
  bool fewer_will_do = false;  // fewer pieces where the text has no more
  std::int64_t longest = 100;  // tokens of a sentence
};

struct ParallelCorpus {
  std::string name;  // for display: the names of the training files
  std::int64_t bytes = 0;
  std::string sha256;  // of the text of all files, and of which pairs are held out where that is chosen here
  std::vector<text::CorpusFile> files;  // every file that was read
  std::shared_ptr<const text::SentenceTokenizer> tokenizer;
  std::int64_t longest = 0;
  text::SentencePairs training, held_out;
  // Every line of what is translated and scored, empty and long ones too.
  ParallelText test;
  bool test_is_held_out = false;
};

// Throws Error where a file cannot be read (text_lines.h), where two files differ in their number of lines, or no pair
// is left; UsageError where only one of two files is given. The vocabulary is learned from the training part of both
// languages.
ParallelCorpus load_parallel_corpus(const ParallelOptions& options);
// The same with the tokenizer of an earlier run.
ParallelCorpus load_parallel_corpus(const ParallelOptions& options,
                                    std::shared_ptr<const text::SentenceTokenizer> tokenizer);

// In one line, the pairs that were dropped, and why; empty: none.
std::string dropped_text(const ParallelCorpus& corpus);

// The tokens of a sentence to translate: none for an empty line; cut to the limit.
struct SourceSentence {
  std::vector<Token> tokens;
  bool cut = false;
};
SourceSentence source_sentence(const text::SentenceTokenizer& tokenizer, std::string_view text, std::int64_t longest);

}  // namespace cogwheel::tasks::translation
