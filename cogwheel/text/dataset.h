// A corpus as tokens: the first 90 % to train on, the last 10 % held out.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/text/corpus.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

struct Dataset {
  std::string name;  // of the corpus
  std::int64_t bytes = 0;
  std::string sha256;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<Token> training, held_out;
  bool kept_tokenizer = false;         // that of a run, whose model may have more tokens
  std::vector<CorpusFile> files = {};  // of the corpus, as is left_out
  std::vector<LeftOut> left_out = {};
};

// Byte pairs are learned from the first 90 % of the bytes. Throws Error where the text is not UTF-8 (for characters;
// the message names the file) or is too short for one window in each of the two parts.
Dataset make_dataset(const Corpus& corpus, std::string_view tokenizer_kind, std::int64_t context,
                     std::int64_t vocabulary = default_byte_pair_vocabulary);
// The same with the tokenizer of an earlier run.
Dataset make_dataset(const Corpus& corpus, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t context);

// How many of `all` windows, one context long each, hold at most that many tokens: at least one, and all of them for 0.
std::int64_t limited_window_count(std::int64_t all, std::int64_t context, std::int64_t tokens);

// The number of non-overlapping windows of the held-out part; unless `tokens` is 0, only as many as hold that many
// tokens, and at least one.
std::int64_t held_out_window_count(const Dataset& data, std::int64_t context, std::int64_t tokens = 0);

}  // namespace cogwheel::text
