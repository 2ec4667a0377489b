// Sentences as tokens of word pieces, for an encoder: with labels to learn, or as text whose words are hidden.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/text/corpus.h"
#include "cogwheel/text/sentence_pairs.h"
#include "cogwheel/text/word_piece.h"

namespace cogwheel::tasks::encoders {

// What can be learned from. A row without a second sentence has none of its tokens.
struct SentenceRows {
  text::SentencePairs tokens;        // first and second sentences, without special tokens; counts of what was dropped
  std::vector<std::int64_t> labels;  // classes, by row; none without labels
  std::vector<std::string> texts;    // by row, with labels: the sentences, with a space between
  std::int64_t cut = 0;              // rows that were longer than the limit

  std::int64_t size() const { return tokens.size(); }
  // Tokens of a row with [CLS] before it and [SEP] after each sentence.
  std::int64_t length(std::int64_t row) const;
};

struct SentenceOptions {
  static constexpr Range<std::int64_t> lengths{4, 1 << 16};
  static constexpr std::int64_t most_classes = 1000;  // more are hardly labels

  std::filesystem::path training = {};
  // None: a tenth of the training file, at most 1,000 rows, of each class its share, chosen by their words
  // (held_out_tenth.h), so that rows of the same words are on one side, wherever they stand.
  std::filesystem::path held_out = {};
  bool labels = true;                // whether rows need one
  std::filesystem::path vocab = {};  // a vocab.txt; none: a vocabulary is learned from the training part
  std::int64_t vocabulary = 8000;    // pieces to learn
  bool cased = false;
  std::int64_t longest = 128;             // tokens of a row, special tokens included
  std::vector<std::string> classes = {};  // of a model that is there already, to which labels are matched by name
};

struct SentenceCorpus {
  std::string name;  // for display: of the training file
  std::int64_t bytes = 0;
  std::string sha256;  // of the text of all files, and of which rows are held out where that is chosen here
  std::vector<text::CorpusFile> files;  // every file that was read
  std::shared_ptr<const text::WordPieceTokenizer> tokenizer;
  std::int64_t longest = 0;
  bool two_sentences = false;              // in each row
  std::vector<std::string> classes;        // sorted, or those of the options; none without labels
  std::vector<std::string> taken_as = {};  // a line each, what in the files may be another thing than it was taken as
  SentenceRows training, held_out;
};

// A row without tokens is dropped and counted. Longer rows than the limit are cut at the end, of two sentences the
// longer one first; without labels, a single sentence is cut into several rows instead, and nothing is lost.
//
// Without labels, files that is_table_name knows give their sentences, all others their lines.
//
// Throws Error where a file cannot be read (sentence_table.h, word_piece.h), a part has no rows left, the labels of the
// training part are fewer than two or more than most_classes, or the held-out part has another; UsageError for a number
// out of range, or no training file.
SentenceCorpus load_sentence_corpus(const SentenceOptions& options);
// The same with the tokenizer of an earlier run.
SentenceCorpus load_sentence_corpus(const SentenceOptions& options,
                                    std::shared_ptr<const text::WordPieceTokenizer> tokenizer);

// In one line, the training rows that were dropped or cut, and why; empty: none.
std::string dropped_text(const SentenceCorpus& corpus);

// Tokens of a row with [CLS] and a [SEP] after each sentence; `second` may be empty.
std::int64_t encoded_length(std::span<const Token> first, std::span<const Token> second);

// One sentence or two as a row, cut as a row of the corpus.
struct EncodedRow {
  std::vector<Token> first, second;
  bool cut = false;
};
EncodedRow encode_row(const text::WordPieceTokenizer& tokenizer, std::string_view first, std::string_view second,
                      std::int64_t longest);

}  // namespace cogwheel::tasks::encoders
