// A corpus as tokens: the first 90 % to train on, the last 10 % held out, and windows of either.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/data/corpus.h"
#include "cogwheel/data/tokenizer.h"
#include "cogwheel/models/token.h"

namespace cogwheel {

struct Dataset {
  std::string name;  // of the corpus
  std::int64_t bytes = 0;
  std::string sha256;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<Token> training, held_out;
  std::vector<CorpusFile> files = {};  // of the corpus, as left_out
  std::vector<LeftOut> left_out = {};
};

// Throws Error where the text is not UTF-8 (character; the message names the file) or has fewer tokens than the
// training and held-out parts need for one window each.
Dataset make_dataset(const Corpus& corpus, std::string_view tokenizer_kind, std::int64_t context);
// With a tokenizer of an earlier run.
Dataset make_dataset(const Corpus& corpus, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t context);

// targets are inputs moved on by one token.
struct Windows {
  at::Tensor inputs, targets;  // [windows, context] int64
};

// `batch` random windows of the training part. They depend on the seed and the step alone, so that runs that share a
// seed share their data order, and a run that resumes needs no state but its step.
Windows training_windows(const Dataset& data, std::int64_t context, std::int64_t batch, std::uint64_t seed,
                         std::int64_t step);

// Every non-overlapping window of the held-out part; where `tokens` is not 0, as many of them as have so many tokens,
// at least one, evenly spread: the same whoever asks.
Windows held_out_windows(const Dataset& data, std::int64_t context, std::int64_t tokens = 0);

}  // namespace cogwheel
