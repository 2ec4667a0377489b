#include "cogwheel/text/word_piece_learning.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/bert_words.h"
#include "cogwheel/text/word_piece.h"

namespace cogwheel::text {
namespace {

using Piece = std::uint32_t;  // a number of `WordPieceLearner::pieces_`

struct CountedWord {
  std::vector<Piece> pieces;
  std::int64_t count;
};

// Of a word, the first as it is, the others with ##.
std::vector<std::string> characters_of(const std::string& word) {
  std::vector<std::string> characters;
  for (std::size_t offset = 0; offset < word.size();) {
    const std::size_t bytes = decode_utf8(word, offset).bytes;
    characters.push_back((offset == 0 ? "" : "##") + word.substr(offset, bytes));
    offset += bytes;
  }
  return characters;
}

class WordPieceLearner {
 public:
  WordPieceLearner(const std::map<std::string, std::int64_t>& words, std::size_t most_characters) {
    std::map<std::string, std::int64_t> counts;
    for (const auto& [word, count] : words)
      for (const std::string& character : characters_of(word)) counts[character] += count;
    std::vector<std::pair<std::string, std::int64_t>> characters(counts.begin(), counts.end());
    std::stable_sort(characters.begin(), characters.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (characters.size() > most_characters) characters.resize(most_characters);
    std::sort(characters.begin(), characters.end());
    for (const auto& [character, count] : characters) number_of(character);
    for (const auto& [word, count] : words) add_word(word, count);
    for (std::size_t word = 0; word < words_.size(); ++word)
      for (std::size_t place = 0; place + 1 < words_[word].pieces.size(); ++place)
        change({words_[word].pieces[place], words_[word].pieces[place + 1]}, words_[word].count, word);
    for (const auto& [pair, seen] : pairs_) push(pair, seen.count);
  }

  std::vector<std::string> pieces(std::size_t most) {
    while (pieces_.size() < most && !heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const auto seen = pairs_.find(best.pair);
      if (seen == pairs_.end() || seen->second.count < 2) continue;
      if (seen->second.count == best.count)
        merge(best.pair);
      else if (seen->second.count < best.count)  // where it has grown, a later candidate says so
        push(best.pair, seen->second.count);
    }
    return pieces_;
  }

 private:
  using Pair = std::pair<Piece, Piece>;
  struct PairHash {
    std::size_t operator()(const Pair& pair) const {
      return std::hash<std::uint64_t>()(std::uint64_t{pair.first} << 32 | pair.second);
    }
  };
  struct Seen {
    std::int64_t count = 0;
    std::vector<std::size_t> words = {};  // where it was when it was counted; it may be gone
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
  };
  struct Worse {
    const std::vector<std::string>* pieces;
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.count != b.count) return a.count < b.count;
      const auto text = [&](const Pair& pair) {
        return std::pair<std::string_view, std::string_view>((*pieces)[pair.first], (*pieces)[pair.second]);
      };
      return text(b.pair) < text(a.pair);
    }
  };

  Piece number_of(const std::string& piece) {
    const auto [found, is_new] = numbers_.emplace(piece, static_cast<Piece>(pieces_.size()));
    if (is_new) pieces_.push_back(piece);
    return found->second;
  }

  // Unless one of its characters is no piece.
  void add_word(const std::string& word, std::int64_t count) {
    CountedWord counted{.pieces = {}, .count = count};
    for (const std::string& character : characters_of(word)) {
      const auto found = numbers_.find(character);
      if (found == numbers_.end()) return;
      counted.pieces.push_back(found->second);
    }
    words_.push_back(std::move(counted));
  }

  void change(const Pair& pair, std::int64_t by, std::size_t word) {
    Seen& seen = pairs_[pair];
    seen.count += by;
    if (by > 0 && (seen.words.empty() || seen.words.back() != word)) seen.words.push_back(word);
  }

  void push(const Pair& pair, std::int64_t count) {
    if (count >= 2) heap_.push({count, pair});
  }

  void merge(const Pair& pair) {
    const Piece merged = number_of(pieces_[pair.first] + pieces_[pair.second].substr(2));
    std::vector<std::size_t> words = std::move(pairs_[pair].words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<Pair> grown;
    for (const std::size_t word : words) {
      std::vector<Piece>& pieces = words_[word].pieces;
      const std::int64_t count = words_[word].count;
      for (std::size_t place = 0; place + 1 < pieces.size(); ++place) {
        if (Pair(pieces[place], pieces[place + 1]) != pair) continue;
        const auto rename = [&](const Pair& from, const Pair& to) {
          change(from, -count, word);
          change(to, count, word);
          grown.push_back(to);
        };
        if (place > 0) rename({pieces[place - 1], pair.first}, {pieces[place - 1], merged});
        if (place + 2 < pieces.size()) rename({pair.second, pieces[place + 2]}, {merged, pieces[place + 2]});
        pieces[place] = merged;
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(place) + 1);
      }
    }
    pairs_.erase(pair);
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const Pair& each : grown) push(each, pairs_[each].count);
  }

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, Piece> numbers_;
  std::vector<CountedWord> words_;
  std::unordered_map<Pair, Seen, PairHash> pairs_;
  std::priority_queue<Candidate, std::vector<Candidate>, Worse> heap_{Worse{&pieces_}};
};

}  // namespace

std::vector<std::string> learn_word_pieces(std::span<const std::string_view> lines, std::int64_t vocabulary, bool cased,
                                           std::string_view what) {
  expect_within("vocabulary", vocabulary, WordPieceTokenizer::vocabularies);
  std::map<std::string, std::int64_t> words;
  for (const std::string_view line : lines)
    for (std::string& word : bert_words(line, cased, what)) ++words[std::move(word)];
  if (words.empty()) throw Error(expected_got(what, "text for a vocabulary", "none"));
  const auto& specials = WordPieceTokenizer::special_pieces;
  const auto all = static_cast<std::size_t>(vocabulary);
  WordPieceLearner learner(words, all / 2);
  std::vector<std::string> pieces(specials.begin(), specials.end());
  for (std::string& piece : learner.pieces(all - specials.size())) pieces.push_back(std::move(piece));
  return pieces;
}

}  // namespace cogwheel::text
