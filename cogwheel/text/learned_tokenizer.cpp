#include "cogwheel/text/learned_tokenizer.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/threads_executor.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_pair_learning.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::text {
namespace {

constexpr std::size_t counted_together = 16 << 20;  // bytes, for threads to share
constexpr std::size_t counted_by_one = 1 << 18;     // of a document; a longer one is counted in parts

// A part of a document, which ends before a space between two letters: there a word ends, whatever is around it.
std::size_t part_end(std::string_view rest) {
  if (rest.size() <= counted_by_one) return rest.size();
  for (std::size_t at = counted_by_one; at + 1 < rest.size(); ++at) {
    const auto is_letter = [](char byte) { return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'; };
    if (is_letter(rest[at - 1]) && rest[at] == ' ' && is_letter(rest[at + 1])) return at;
  }
  return rest.size();
}

std::shared_ptr<const Tokenizer> learn_bpe(const EachDocument& documents, const TokenizerLearning& learning,
                                           std::string_view what) {
  expect_within("vocabulary", learning.vocabulary, byte_pair_vocabularies);
  ByteWordCounts counts(learning.words);
  const ThreadsExecutor executor(learning.threads);
  std::vector<std::string> held;
  std::size_t bytes = 0;
  const auto count = [&] {
    std::vector<std::string_view> parts;
    for (const std::string_view document : held)
      for (std::string_view rest = document; !rest.empty();) {
        const std::size_t end = part_end(rest);
        parts.push_back(rest.substr(0, end));
        rest.remove_prefix(end);
      }
    counts.add(parts, executor);
    held.clear();
    bytes = 0;
  };
  documents([&](std::string_view document) {
    bytes += held.emplace_back(document).size();
    if (bytes >= counted_together) count();
  });
  count();
  return std::make_shared<BytePairTokenizer>(learn_byte_pairs(counts, learning.vocabulary, what), what);
}

std::shared_ptr<const Tokenizer> learn_sentencepiece(const EachDocument& documents, std::int64_t vocabulary,
                                                     std::string_view what) {
  expect_within("vocabulary", vocabulary, byte_pair_vocabularies);
  std::vector<std::string> held;
  documents([&](std::string_view document) {
    while (!document.empty()) {
      const std::size_t end = std::min(document.find('\n'), document.size());
      if (end > 0) held.emplace_back(document.substr(0, end));
      document.remove_prefix(std::min(end + 1, document.size()));
    }
  });
  const std::vector<std::string_view> lines(held.begin(), held.end());
  return SentencePieceTokenizer::train(lines, vocabulary, what, false, SentencePieceStyle::documents);
}

}  // namespace

std::shared_ptr<const Tokenizer> learn_tokenizer(const EachDocument& documents, const TokenizerLearning& learning,
                                                 std::string_view what) {
  if (learning.kind == "bpe") return learn_bpe(documents, learning, what);
  if (learning.kind == "sentencepiece") return learn_sentencepiece(documents, learning.vocabulary, what);
  throw UsageError(expected_got("--kind", expected_names(learning.kind, learned_tokenizer_names()), learning.kind));
}

}  // namespace cogwheel::text
