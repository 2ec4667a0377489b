#include "cogwheel/tasks/encoders/sentence_batches.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"

namespace cogwheel::tasks::encoders {
namespace {

constexpr std::uint32_t training_masks = stream_named("mask"),
                        evaluation_masks = training_masks + 1;  // streams of draws

// The tokens of a row that are chosen or not together.
using Unit = std::vector<std::int64_t*>;

class WordHider {
 public:
  WordHider(const text::WordPieceTokenizer& tokenizer, const WordMasking& masking)
      : tokenizer_(tokenizer), masking_(masking) {
    expect_within("masking probability", masking.probability, WordMasking::probabilities);
    constexpr Range<double> shares{.min = 0, .max = 1};
    expect_within("share of [MASK]", masking.masked, shares);
    expect_within("share of other tokens", masking.replaced, shares);
    expect_within("shares of [MASK] and of other tokens", masking.masked + masking.replaced, shares);
    for (Token token = 0; token < tokenizer.vocabulary(); ++token)
      if (!tokenizer.is_special(token)) words_.push_back(token);
  }

  // Hides tokens of a row and writes targets beside; says how many.
  std::int64_t hide(std::int64_t* tokens, std::int64_t length, std::int64_t* targets, NumberedDraws draws,
                    std::size_t at_least) const {
    std::vector<Unit> units = units_of(tokens, length);
    const double share = static_cast<double>(units.size()) * masking_.probability;
    auto count = static_cast<std::size_t>(share);
    if (draws.with_probability(share - static_cast<double>(count))) ++count;
    count = std::min(std::max(count, at_least), units.size());
    std::int64_t hidden = 0;
    for (std::size_t place = 0; place < count; ++place) {
      // The next one of a random order.
      std::swap(units[place], units[place + draws.below(units.size() - place)]);
      for (std::int64_t* token : units[place]) {
        targets[token - tokens] = *token;
        *token = replacement(*token, draws);
        ++hidden;
      }
    }
    return hidden;
  }

 private:
  std::vector<Unit> units_of(std::int64_t* tokens, std::int64_t length) const {
    std::vector<Unit> units;
    bool open = false;  // whether the token before may be chosen
    for (std::int64_t* token = tokens; token < tokens + length; ++token) {
      const auto piece = static_cast<Token>(*token);
      const bool may_be_chosen = !tokenizer_.is_special(piece);
      if (may_be_chosen) {
        if (!masking_.whole_words || !open || !tokenizer_.continues(piece)) units.emplace_back();
        units.back().push_back(token);
      }
      open = may_be_chosen;
    }
    return units;
  }

  std::int64_t replacement(std::int64_t token, NumberedDraws& draws) const {
    const double chance = draws.uniform();
    if (chance < masking_.masked) return tokenizer_.specials().mask;
    return chance < masking_.masked + masking_.replaced ? words_[draws.below(words_.size())] : token;
  }

  const text::WordPieceTokenizer& tokenizer_;
  WordMasking masking_;
  std::vector<Token> words_;  // all tokens but the special ones
};

// `draws_of` gives the random numbers of a row.
template <class DrawsOf>
MaskedBatch masked(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                   std::span<const std::int64_t> chosen, const WordMasking& masking, const DrawsOf& draws_of) {
  const WordHider hider(tokenizer, masking);
  MaskedBatch result{.batch = encoder_batch(rows, tokenizer, chosen), .targets = {}};
  result.targets = at::full(result.batch.tokens.sizes(), ignored_target, at::kLong);
  const std::int64_t width = result.batch.tokens.size(1);
  auto* const tokens = result.batch.tokens.mutable_data_ptr<std::int64_t>();
  auto* const targets = result.targets.mutable_data_ptr<std::int64_t>();
  const auto hide = [&](std::size_t row, std::size_t at_least) {
    const auto place = static_cast<std::int64_t>(row) * width;
    result.words +=
        hider.hide(tokens + place, rows.length(chosen[row]), targets + place, draws_of(chosen[row]), at_least);
  };
  for (std::size_t row = 0; row < chosen.size(); ++row) hide(row, 0);
  for (std::size_t row = 0; row < chosen.size() && result.words == 0; ++row) hide(row, 1);
  return result;
}

}  // namespace

text::BatchPlan sentence_batch_plan(const SentenceRows& rows, const text::BatchSize& size) {
  std::vector<text::BatchPlan::Columns> columns;
  for (std::int64_t row = 0; row < rows.size(); ++row) columns.push_back({rows.length(row), 0});
  return text::BatchPlan(columns, size);
}

EncoderBatch encoder_batch(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                           std::span<const std::int64_t> chosen) {
  const auto count = std::ssize(chosen);
  std::int64_t width = 0;
  for (const std::int64_t row : chosen) width = std::max(width, rows.length(row));
  const text::WordPieceSpecials& specials = tokenizer.specials();
  EncoderBatch batch{.tokens = at::full({count, width}, std::int64_t{specials.padding}, at::kLong),
                     .segments = at::zeros({count, width}, at::kLong),
                     .lengths = at::empty({count}, at::kLong),
                     .labels = {}};
  if (!rows.labels.empty()) batch.labels = at::empty({count}, at::kLong);
  auto* token = batch.tokens.mutable_data_ptr<std::int64_t>();
  auto* segment = batch.segments.mutable_data_ptr<std::int64_t>();
  auto* length = batch.lengths.mutable_data_ptr<std::int64_t>();
  auto* label = rows.labels.empty() ? nullptr : batch.labels.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t row : chosen) {
    const auto first = rows.tokens.source(row), second = rows.tokens.target(row);
    *token = specials.first;
    auto* place = std::copy(first.begin(), first.end(), token + 1);
    *place++ = specials.separator;
    if (!second.empty()) {
      std::int64_t* const begin = segment + (place - token);
      place = std::copy(second.begin(), second.end(), place);
      *place++ = specials.separator;
      std::fill(begin, segment + (place - token), 1);
    }
    *length++ = place - token;
    if (label != nullptr) *label++ = rows.labels[static_cast<std::size_t>(row)];
    token += width;
    segment += width;
  }
  return batch;
}

MaskedBatch masked_batch(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                         std::span<const std::int64_t> chosen, const WordMasking& masking, std::uint64_t seed,
                         std::int64_t step) {
  return masked(rows, tokenizer, chosen, masking, [&](std::int64_t row) {
    // Steps and rows are fewer than 2³².
    return NumberedDraws(seed, training_masks,
                         static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(row));
  });
}

MaskedBatch masked_evaluation_batch(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer,
                                    std::span<const std::int64_t> chosen, const WordMasking& masking) {
  return masked(rows, tokenizer, chosen, masking,
                [&](std::int64_t row) { return NumberedDraws(0, evaluation_masks, static_cast<std::uint64_t>(row)); });
}

}  // namespace cogwheel::tasks::encoders
