// Sentences of different lengths as tensors, padded at their ends.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cogwheel/text/sentence_pairs.h"

namespace cogwheel::tasks::translation {

struct SourceBatch {
  at::Tensor tokens;   // [sentences, longest] int64: each with `end` after it, then padding
  at::Tensor lengths;  // [sentences] int64, `end` included
};

struct SentenceBatch {
  SourceBatch source;
  at::Tensor inputs;          // [sentences, longest] int64: `begin`, the target's tokens, padding
  at::Tensor targets;         // the same shape: the target's tokens, `end`, then `ignored_target`
  at::Tensor target_lengths;  // [sentences] int64, `end` included
  std::int64_t tokens = 0;    // to predict: the sum of target_lengths
};

SourceBatch source_batch(std::span<const std::vector<Token>> sentences);
SentenceBatch sentence_batch(const text::SentencePairs& pairs, std::span<const std::int64_t> chosen);
SentenceBatch sentence_batch(const text::SentencePairs& pairs);  // of all of them

}  // namespace cogwheel::tasks::translation
