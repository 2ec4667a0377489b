#include "cogwheel/text/byte_pairs/byte_pair_learning.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

template <WordPattern pattern, class Take>
void each_word(std::string_view text, Take take) {
  const WordScanner<pattern> scanner(text);
  for (std::size_t start = 0, end; start < text.size(); start = end) {
    end = scanner.end(start);
    take(text.substr(start, end - start));
  }
}

using TokenPair = std::pair<Token, Token>;

struct TokenPairHash {
  std::size_t operator()(const TokenPair& pair) const {
    const std::uint64_t both = std::uint64_t(pair.first) << 32 | std::uint64_t(pair.second);
    return static_cast<std::size_t>((both ^ both >> 29) * 0x9e3779b97f4a7c15U >> 8);
  }
};

class BytePairLearner {
 public:
  explicit BytePairLearner(const std::vector<std::pair<std::string, std::int64_t>>& words) {
    for (const auto& [bytes, count] : words) {
      if (bytes.size() < 2) continue;
      std::vector<Token>& tokens = words_.emplace_back();
      for (const char byte : bytes) tokens.push_back(static_cast<unsigned char>(byte));
      counts_.push_back(count);
      for (std::size_t place = 0; place + 1 < tokens.size(); ++place)
        change({tokens[place], tokens[place + 1]}, count, words_.size() - 1);
    }
    for (const auto& [pair, seen] : pairs_) push(pair, seen.count);
  }

  // The most frequent pair, which becomes `merged`; nothing where none occurs twice.
  std::optional<TokenPair> merge_next(Token merged) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const auto seen = pairs_.find(best.pair);
      if (seen == pairs_.end()) continue;
      if (seen->second.count != best.count) {
        // Where it has grown, a later candidate says so.
        if (seen->second.count < best.count) push(best.pair, seen->second.count);
        continue;
      }
      merge(best.pair, merged);
      return best.pair;
    }
    return std::nullopt;
  }

 private:
  struct Seen {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words = {};  // where it was when it was counted; it may be gone
  };
  struct Candidate {
    std::int64_t count;
    TokenPair pair;
    bool operator<(const Candidate& other) const { return std::tie(count, other.pair) < std::tie(other.count, pair); }
  };

  void change(const TokenPair& pair, std::int64_t by, std::size_t word) {
    Seen& seen = pairs_[pair];
    seen.count += by;
    const auto number = static_cast<std::uint32_t>(word);
    if (by > 0 && (seen.words.empty() || seen.words.back() != number)) seen.words.push_back(number);
  }

  void push(const TokenPair& pair, std::int64_t count) {
    if (count >= 2) heap_.push({count, pair});
  }

  void merge(const TokenPair& pair, Token merged) {
    std::vector<std::uint32_t> places = std::move(pairs_[pair].words);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    std::vector<TokenPair> grown;
    for (const std::uint32_t word : places) {
      std::vector<Token>& tokens = words_[word];
      const std::int64_t count = counts_[word];
      const auto rename = [&](const TokenPair& from, const TokenPair& to) {
        change(from, -count, word);
        change(to, count, word);
        grown.push_back(to);
      };
      std::size_t kept = 0;
      for (std::size_t place = 0; place < tokens.size(); ++place) {
        if (place + 1 < tokens.size() && TokenPair(tokens[place], tokens[place + 1]) == pair) {
          if (kept > 0) rename({tokens[kept - 1], pair.first}, {tokens[kept - 1], merged});
          if (place + 2 < tokens.size()) rename({pair.second, tokens[place + 2]}, {merged, tokens[place + 2]});
          tokens[kept++] = merged;
          ++place;
        } else {
          tokens[kept++] = tokens[place];
        }
      }
      tokens.resize(kept);
    }
    pairs_.erase(pair);
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const TokenPair& each : grown)
      if (const auto seen = pairs_.find(each); seen != pairs_.end()) push(each, seen->second.count);
  }

  std::vector<std::vector<Token>> words_;
  std::vector<std::int64_t> counts_;
  std::unordered_map<TokenPair, Seen, TokenPairHash> pairs_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

void ByteWordCounts::add(std::span<const std::string_view> documents, const Executor& executor) {
  by_worker_.resize(std::max(by_worker_.size(), static_cast<std::size_t>(executor.workers())));
  character_classes();
  executor.run(std::ssize(documents), [&](std::int64_t index, int worker) {
    Counts& counts = by_worker_[static_cast<std::size_t>(worker)];
    const auto count = [&](std::string_view word) { ++counts[std::string(word)]; };
    const std::string_view text = documents[static_cast<std::size_t>(index)];
    if (words_ == WordPattern::gpt2)
      each_word<WordPattern::gpt2>(text, count);
    else
      each_word<WordPattern::llama3>(text, count);
  });
}

std::vector<std::pair<std::string, std::int64_t>> ByteWordCounts::sorted() const {
  Counts all;
  for (const Counts& counts : by_worker_)
    for (const auto& [word, count] : counts) all[word] += count;
  std::vector<std::pair<std::string, std::int64_t>> sorted(all.begin(), all.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

BytePairVocabulary learn_byte_pairs(const ByteWordCounts& counts, std::int64_t vocabulary, std::string_view what) {
  expect_within("vocabulary", vocabulary, byte_pair_vocabularies);
  const auto words = counts.sorted();
  if (words.empty()) throw Error(expected_got(what, "text for a vocabulary", "none"));
  BytePairVocabulary learned{.words = counts.words()};
  for (int byte = 0; byte < 256; ++byte) learned.tokens.emplace_back(1, static_cast<char>(byte));
  BytePairLearner learner(words);
  while (std::ssize(learned.tokens) + 1 < vocabulary) {
    const auto pair = learner.merge_next(static_cast<Token>(learned.tokens.size()));
    if (!pair) break;
    learned.merges.push_back(*pair);
    learned.tokens.push_back(learned.tokens[static_cast<std::size_t>(pair->first)] +
                             learned.tokens[static_cast<std::size_t>(pair->second)]);
  }
  learned.special = {static_cast<Token>(learned.tokens.size())};
  learned.tokens.emplace_back("<|endoftext|>");
  learned.end_of_document = learned.special.front();
  return learned;
}

}  // namespace cogwheel::text
