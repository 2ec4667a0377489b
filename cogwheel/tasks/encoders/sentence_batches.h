// Rows of sentences as input tensors of an encoder (tasks/encoders/encoder.h), and with words hidden for it to predict.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "cogwheel/core/range.h"
#include "cogwheel/tasks/encoders/sentence_corpus.h"
#include "cogwheel/text/batch_plan.h"

namespace cogwheel::tasks::encoders {

// [CLS] first [SEP], or [CLS] first [SEP] second [SEP], then padding.
struct EncoderBatch {
  at::Tensor tokens;    // [B, N] int64; N: the longest row
  at::Tensor segments;  // [B, N] int64: 1 for the second sentence and the [SEP] after it, else 0
  at::Tensor lengths;   // [B] int64: tokens of a row that are no padding
  at::Tensor labels;    // [B] int64: classes; undefined for rows without labels
};

// Which rows make the batch of a step: BatchPlan::pairs(seed, step) for training, pairs_in_order for evaluation. Tokens
// count with special tokens and padding.
text::BatchPlan sentence_batch_plan(const SentenceRows& rows, const text::BatchSize& size);

EncoderBatch encoder_batch(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                           std::span<const std::int64_t> chosen);

// Which tokens are hidden: Devlin et al., "BERT" (2019), section 3.1. Special tokens are never chosen, [UNK] neither.
struct WordMasking {
  static constexpr Range<double> probabilities{.min = 0, .max = 1, .min_excluded = true};

  double probability = 0.15;  // of a token to be chosen
  double masked = 0.8;        // of a chosen token to become [MASK]
  double replaced = 0.1;      // or another token, any but a special one; else it stays
  bool whole_words = false;   // all pieces of a word are chosen, or none; each becomes what it becomes by itself
};

struct MaskedBatch {
  EncoderBatch batch;      // its tokens with the chosen ones hidden
  at::Tensor targets;      // [B, N] int64: the token that was chosen, else `ignored_target`
  std::int64_t words = 0;  // chosen tokens; at least 1 where any token may be chosen
};

// A row of n tokens, or words, that may be chosen has n · probability of them chosen: that number rounded down or up by
// chance, so that rates are right for short rows too. A batch in which none was chosen has one in its first row. Which
// ones follows from seed, step and row. Throws UsageError for probabilities out of range.
MaskedBatch masked_batch(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                         std::span<const std::int64_t> chosen, const WordMasking& masking, std::uint64_t seed,
                         std::int64_t step);
// For evaluation: a row has the same tokens hidden in every batch, run and step.
MaskedBatch masked_evaluation_batch(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                                    std::span<const std::int64_t> chosen, const WordMasking& masking);

}  // namespace cogwheel::tasks::encoders
