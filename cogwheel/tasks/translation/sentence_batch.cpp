#include "cogwheel/tasks/translation/sentence_batch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <numeric>

#include "cogwheel/text/sentence_tokens.h"

namespace cogwheel::tasks::translation {
namespace {

using Sentences = std::vector<std::span<const Token>>;

std::int64_t longest_of(const Sentences& sentences) {
  std::size_t longest = 0;
  for (const auto& sentence : sentences) longest = std::max(longest, sentence.size());
  return static_cast<std::int64_t>(longest);
}

// Each sentence in its row, with `first` before and `last` after it where they are tokens.
at::Tensor rows_of(const Sentences& sentences, std::int64_t fill, const Token* first, const Token* last) {
  const std::int64_t width = longest_of(sentences) + 1;
  const at::Tensor rows = at::full({std::ssize(sentences), width}, fill, at::kLong);
  auto* row = rows.mutable_data_ptr<std::int64_t>();
  for (const auto& sentence : sentences) {
    auto* place = row;
    if (first != nullptr) *place++ = *first;
    place = std::copy(sentence.begin(), sentence.end(), place);
    if (last != nullptr) *place = *last;
    row += width;
  }
  return rows;
}

at::Tensor lengths_of(const Sentences& sentences) {
  const at::Tensor lengths = at::empty({std::ssize(sentences)}, at::kLong);
  std::transform(sentences.begin(), sentences.end(), lengths.mutable_data_ptr<std::int64_t>(),
                 [](const auto& sentence) { return std::ssize(sentence) + 1; });
  return lengths;
}

SourceBatch source_of(const Sentences& sentences) {
  return {rows_of(sentences, text::SentenceTokens::padding, nullptr, &text::SentenceTokens::end),
          lengths_of(sentences)};
}

}  // namespace

SourceBatch source_batch(std::span<const std::vector<Token>> sentences) {
  return source_of({sentences.begin(), sentences.end()});
}

SentenceBatch sentence_batch(const text::SentencePairs& pairs, std::span<const std::int64_t> chosen) {
  Sentences sources, targets;
  for (const std::int64_t pair : chosen) sources.push_back(pairs.source(pair)), targets.push_back(pairs.target(pair));
  SentenceBatch batch{.source = source_of(sources),
                      .inputs = rows_of(targets, text::SentenceTokens::padding, &text::SentenceTokens::begin, nullptr),
                      .targets = rows_of(targets, ignored_target, nullptr, &text::SentenceTokens::end),
                      .target_lengths = lengths_of(targets)};
  for (const auto& target : targets) batch.tokens += std::ssize(target) + 1;
  return batch;
}

SentenceBatch sentence_batch(const text::SentencePairs& pairs) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(pairs.size()));
  std::iota(all.begin(), all.end(), 0);
  return sentence_batch(pairs, all);
}

}  // namespace cogwheel::tasks::translation
