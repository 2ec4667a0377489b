#include "cogwheel/text/byte_pairs/byte_pair_encoding.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

constexpr Token no_token = -1;
constexpr std::size_t long_word = 48;  // from this length on, a heap finds the next merge sooner than a look at all

// At most half full, and more than one.
std::size_t slots_for(std::size_t entries) { return std::bit_ceil(2 * entries + 2); }

// `text_end`: up to where bytes may be read.
ShortWord short_word(const char* word, std::size_t bytes, const char* text_end) {
  ShortWord key;
  if (text_end - word >= 16) {
    std::memcpy(&key.low, word, 8);
    std::memcpy(&key.high, word + 8, 8);
    const auto first = [](std::uint64_t all, std::size_t count) { return all & ((std::uint64_t{1} << 8 * count) - 1); };
    if (bytes < 8)
      key.low = first(key.low, bytes), key.high = 0;
    else
      key.high = first(key.high, bytes - 8);
  } else {
    char padded[16] = {};
    std::memcpy(padded, word, bytes);
    std::memcpy(&key.low, padded, 8);
    std::memcpy(&key.high, padded + 8, 8);
  }
  key.high |= std::uint64_t{bytes} << 56;
  return key;
}

// What the words of several tokens became, the last ones that a thread met.
struct RememberedWord {
  static constexpr std::size_t most = 10;
  ShortWord word;
  std::uint32_t encoding = 0;  // whose; 0: none
  std::uint32_t count = 0;
  Token tokens[most];
};

struct ThreadMemory {
  static constexpr std::size_t words = 1 << 13;
  std::unique_ptr<RememberedWord[]> remembered = std::make_unique<RememberedWord[]>(words);
};

ThreadMemory& thread_memory() {
  thread_local ThreadMemory memory;
  return memory;
}

}  // namespace

MergeTable::MergeTable(std::size_t merges) : mask_(slots_for(merges) - 1), slots_(mask_ + 1, Slot{0, none}) {}

void MergeTable::set(Token left, Token right, std::uint32_t merge) {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t slot = slot_of(pair);
  while (slots_[slot].merge != none && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
  slots_[slot] = {pair, merge};
}

BytePairEncoding::BytePairEncoding(const BytePairVocabulary& vocabulary, std::string_view what)
    : pattern_(vocabulary.words),
      merged_(merged_tokens(vocabulary, what)),
      merges_of_bytes_(256 * 256, MergeTable::none),
      merges_(vocabulary.merges.size()) {
  static std::atomic<std::uint32_t> objects = 0;
  number_ = ++objects;
  bytes_ = byte_tokens(vocabulary);
  for (std::size_t merge = 0; merge < vocabulary.merges.size(); ++merge)
    merges_.set(vocabulary.merges[merge].first, vocabulary.merges[merge].second, static_cast<std::uint32_t>(merge));
  for (std::size_t left = 0; left < 256; ++left)
    for (std::size_t right = 0; right < 256; ++right)
      merges_of_bytes_[left << 8 | right] = merges_.find(bytes_[left], bytes_[right]);
  add_whole_words(vocabulary);
}

// What merges make of one token's bytes is that token, but for those that they cannot make.
void BytePairEncoding::add_whole_words(const BytePairVocabulary& vocabulary) {
  const std::size_t slots = slots_for(vocabulary.tokens.size());
  whole_words_.assign(slots, {{}, no_token});
  whole_words_mask_ = slots - 1;
  std::vector<Token> made;
  for (std::size_t index = 0; index < vocabulary.tokens.size(); ++index) {
    const std::string& bytes = vocabulary.tokens[index];
    const auto token = static_cast<Token>(index);
    if (std::binary_search(vocabulary.special.begin(), vocabulary.special.end(), token) ||
        std::binary_search(vocabulary.added.begin(), vocabulary.added.end(), token))
      continue;
    if (bytes.size() > ShortWord::longest) {
      if (vocabulary.whole_words) long_words_.emplace_back(bytes, token);
      continue;
    }
    made.clear();
    if (!vocabulary.whole_words) merge(bytes, made);
    if (vocabulary.whole_words || (made.size() == 1 && made[0] == token))
      set_whole_word(short_word(bytes.data(), bytes.size(), bytes.data() + bytes.size()), token);
  }
  std::sort(long_words_.begin(), long_words_.end());
}

void BytePairEncoding::set_whole_word(const ShortWord& word, Token token) {
  std::size_t slot = word.hash() >> 32 & whole_words_mask_;
  while (whole_words_[slot].token != no_token) slot = (slot + 1) & whole_words_mask_;
  whole_words_[slot] = {word, token};
}

inline Token BytePairEncoding::whole_word(const ShortWord& word) const {
  for (std::size_t slot = word.hash() >> 32 & whole_words_mask_;; slot = (slot + 1) & whole_words_mask_) {
    const WholeWord& found = whole_words_[slot];
    if (found.word == word || found.token == no_token) return found.token;
  }
}

void BytePairEncoding::encode(std::string_view text, std::vector<Token>& tokens, std::string_view what) const {
  if (text.size() > 0xffffffff)
    throw Error(expected_got(what, "a text below 4 GiB", std::to_string(text.size()) + " bytes"));
  switch (pattern_) {
    case WordPattern::gpt2:
      return encode_words<WordPattern::gpt2>(text, tokens);
    case WordPattern::llama3:
      return encode_words<WordPattern::llama3>(text, tokens);
    case WordPattern::qwen2:
      return encode_words<WordPattern::qwen2>(text, tokens);
    case WordPattern::gpt2_digits:
      for (std::size_t start = 0; start < text.size();) {
        const NumberPlace number = next_number(text, start);
        encode_words<WordPattern::gpt2_digits>(text.substr(start, number.begin - start), tokens);
        encode_words<WordPattern::gpt2_digits>(text.substr(number.begin, number.end - number.begin), tokens);
        start = number.end;
      }
  }
}

template <WordPattern pattern>
void BytePairEncoding::encode_words(std::string_view text, std::vector<Token>& tokens) const {
  const WordScanner<pattern> scanner(text);
  RememberedWord* const remembered = thread_memory().remembered.get();
  const char* const text_end = text.data() + text.size();
  for (std::size_t start = 0, end; start < text.size(); start = end) {
    end = scanner.end(start);
    const std::string_view word = text.substr(start, end - start);
    if (word.size() > ShortWord::longest) {
      merge(word, tokens);
      continue;
    }
    const ShortWord key = short_word(word.data(), word.size(), text_end);
    if (const Token token = whole_word(key); token != no_token) {
      tokens.push_back(token);
      continue;
    }
    RememberedWord& memory = remembered[key.hash() >> 20 & (ThreadMemory::words - 1)];
    if (memory.encoding == number_ && memory.word == key) {
      tokens.insert(tokens.end(), memory.tokens, memory.tokens + memory.count);
      continue;
    }
    const std::size_t before = tokens.size();
    merge(word, tokens);
    const std::size_t count = tokens.size() - before;
    if (count > RememberedWord::most) continue;
    memory.word = key;
    memory.encoding = number_;
    memory.count = static_cast<std::uint32_t>(count);
    std::copy_n(tokens.end() - static_cast<std::ptrdiff_t>(count), count, memory.tokens);
  }
}

void BytePairEncoding::merge(std::string_view word, std::vector<Token>& tokens) const {
  if (!long_words_.empty() && word.size() > ShortWord::longest) {
    const auto found =
        std::lower_bound(long_words_.begin(), long_words_.end(), word,
                         [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
    if (found != long_words_.end() && found->first == word) return tokens.push_back(found->second);
  }
  if (word.size() < long_word)
    merge_short(word, tokens);
  else
    merge_long(word, tokens);
}

void BytePairEncoding::merge_short(std::string_view word, std::vector<Token>& tokens) const {
  Token pieces[long_word];
  std::uint32_t merges[long_word];  // of each piece and the next; none after the last
  std::size_t count = word.size();
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(word[index]); };
  for (std::size_t index = 0; index < count; ++index) pieces[index] = bytes_[byte(index)];
  for (std::size_t index = 0; index + 1 < count; ++index)
    merges[index] = merges_of_bytes_[std::size_t{byte(index)} << 8 | byte(index + 1)];
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t index = 1; index + 1 < count; ++index)
      if (merges[index] < merges[best]) best = index;
    if (merges[best] == MergeTable::none) break;
    pieces[best] = merged_[merges[best]];
    --count;
    for (std::size_t index = best + 1; index < count; ++index) {
      pieces[index] = pieces[index + 1];
      merges[index - 1] = merges[index];
    }
    if (best > 0) merges[best - 1] = merges_.find(pieces[best - 1], pieces[best]);
    if (best + 1 < count) merges[best] = merges_.find(pieces[best], pieces[best + 1]);
  }
  tokens.insert(tokens.end(), pieces, pieces + count);
}

void BytePairEncoding::merge_long(std::string_view word, std::vector<Token>& tokens) const {
  std::vector<Token> bytes(word.size());
  for (std::size_t index = 0; index < word.size(); ++index)
    bytes[index] = bytes_[static_cast<unsigned char>(word[index])];
  merge_in_order(bytes, merges_, merged_, tokens);
}

// The pieces are a list; a heap holds the merges, each with its place, the least first. Of those that are no longer
// possible when their turn comes, nothing is made.
void merge_in_order(std::span<const Token> given, const MergeTable& merges, std::span<const Token> merged,
                    std::vector<Token>& tokens) {
  struct Piece {
    Token token;
    std::uint32_t merge, before, after;
  };
  constexpr std::uint32_t end = 0xffffffff;
  if (given.empty()) return;
  const auto count = static_cast<std::uint32_t>(given.size());
  std::vector<Piece> pieces(count);
  std::vector<std::uint64_t> heap;
  heap.reserve(count);
  const auto later = std::greater<std::uint64_t>();
  for (std::uint32_t index = 0; index < count; ++index) {
    const bool last = index + 1 == count;
    const std::uint32_t merge = last ? MergeTable::none : merges.find(given[index], given[index + 1]);
    pieces[index] = {given[index], merge, index == 0 ? end : index - 1, last ? end : index + 1};
    if (merge != MergeTable::none) heap.push_back(std::uint64_t{merge} << 32 | index);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto renew = [&](std::uint32_t index) {
    Piece& piece = pieces[index];
    piece.merge = piece.after == end ? MergeTable::none : merges.find(piece.token, pieces[piece.after].token);
    if (piece.merge == MergeTable::none) return;
    heap.push_back(std::uint64_t{piece.merge} << 32 | index);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    const auto merge = static_cast<std::uint32_t>(heap.front() >> 32);
    const auto index = static_cast<std::uint32_t>(heap.front());
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Piece& piece = pieces[index];
    if (piece.merge != merge) continue;
    Piece& gone = pieces[piece.after];
    piece.token = merged[merge];
    piece.after = gone.after;
    gone.merge = MergeTable::none;
    if (piece.after != end) pieces[piece.after].before = index;
    renew(index);
    if (piece.before != end) renew(piece.before);
  }
  for (std::uint32_t index = 0; index != end; index = pieces[index].after) tokens.push_back(pieces[index].token);
}

}  // namespace cogwheel::text
