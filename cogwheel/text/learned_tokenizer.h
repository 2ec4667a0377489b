// A tokenizer learned from documents that come one by one.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

// Calls its argument with each document, whose text is gone when that returns.
using EachDocument = std::function<void(const std::function<void(std::string_view document)>& take)>;

struct TokenizerLearning {
  std::string kind = "bpe";  // or "sentencepiece": as Llama's first models (SentencePieceStyle::documents)
  std::int64_t vocabulary = default_byte_pair_vocabulary;
  WordPattern words = WordPattern::gpt2;  // of "bpe"
  int threads = 1;                        // of "bpe": any number gives the same
};

inline std::vector<std::string> learned_tokenizer_names() { return {"bpe", "sentencepiece"}; }

// Of byte pairs, what is held is the words that differ; SentencePiece holds all lines. Throws UsageError for another
// kind or size, Error that names `what` for documents that nothing can be learned from.
std::shared_ptr<const Tokenizer> learn_tokenizer(const EachDocument& documents, const TokenizerLearning& learning,
                                                 std::string_view what);

}  // namespace cogwheel::text
