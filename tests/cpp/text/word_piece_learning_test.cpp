#include "cogwheel/text/word_piece_learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cogwheel/core/random.h"
#include "cogwheel/text/bert_words.h"
#include "cogwheel/text/text_lines.h"
#include "cogwheel/text/word_piece.h"
#include "support/error_of.h"
#include "support/real_data.h"
#include "support/usage_error_of.h"

namespace cogwheel::text {
namespace {

std::vector<std::string> learn(const std::vector<std::string>& lines, std::int64_t vocabulary) {
  return learn_word_pieces(std::vector<std::string_view>(lines.begin(), lines.end()), vocabulary, false, "text");
}

// Words over a few letters, with repetitions such as aaaa, in which a pair overlaps itself.
std::vector<std::string> made_up_lines(std::uint64_t seed) {
  std::vector<std::string> lines;
  for (std::uint64_t line = 0; line < 60; ++line) {
    std::string text;
    for (std::uint64_t place = 0; place < 40; ++place) text += "aaabbcd "[bounded(random_of({seed, line, place}), 8)];
    lines.push_back(text);
  }
  return lines;
}

// Counts every pair anew before each step.
std::vector<std::string> learned_step_by_step(const std::vector<std::string>& lines, std::size_t vocabulary) {
  std::map<std::vector<std::string>, int> words;
  std::set<std::string> characters;
  for (const std::string& line : lines)
    for (const std::string& word : bert_words(line, false)) {
      std::vector<std::string> pieces;
      for (const char letter : word) pieces.push_back((pieces.empty() ? "" : "##") + std::string(1, letter));
      characters.insert(pieces.begin(), pieces.end());
      ++words[pieces];
    }
  std::vector<std::string> learned{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  learned.insert(learned.end(), characters.begin(), characters.end());
  while (learned.size() < vocabulary) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const auto& [pieces, count] : words)
      for (std::size_t place = 0; place + 1 < pieces.size(); ++place)
        pairs[{pieces[place], pieces[place + 1]}] += count;
    const auto best = std::max_element(pairs.begin(), pairs.end(),  // the first of equal ones
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    const std::string joined = best->first.first + best->first.second.substr(2);
    if (std::find(learned.begin(), learned.end(), joined) == learned.end()) learned.push_back(joined);
    std::map<std::vector<std::string>, int> changed;
    for (const auto& [word, count] : words) {
      std::vector<std::string> pieces = word;
      for (std::size_t place = 0; place + 1 < pieces.size(); ++place)
        if (std::pair(pieces[place], pieces[place + 1]) == best->first) {
          pieces[place] = joined;
          pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(place) + 1);
        }
      changed[pieces] += count;
    }
    words = std::move(changed);
  }
  return learned;
}

TEST(WordPieceLearning, JoinsWhatOccursMostOften) {
  // hug 10, pug 5, pun 12, bun 4, hugs 5: by hand, un 16, ug 20, then hug 15, …
  std::vector<std::string> lines;
  for (const auto& [word, count] : {std::pair("hug", 10), {"pug", 5}, {"pun", 12}, {"bun", 4}, {"hugs", 5}})
    for (int left = count; left > 0; --left) lines.push_back(word);
  EXPECT_EQ(learn(lines, 17),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##g", "##n", "##s", "##u", "b",
                                      "h", "p", "##ug", "##un", "hug", "pun", "hugs"}));
}

TEST(WordPieceLearning, AgreesWithCountingAnewAtEachStep) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto lines = made_up_lines(seed);
    for (const std::size_t vocabulary : {30, 90, 400})
      EXPECT_EQ(learn(lines, static_cast<std::int64_t>(vocabulary)), learned_step_by_step(lines, vocabulary)) << seed;
  }
}

TEST(WordPieceLearning, TakesTheMostFrequentCharactersWhereAllWouldFillTheVocabulary) {
  std::string alphabet;
  for (char letter = 'a'; letter <= 'z'; ++letter) alphabet += std::string(1, letter) + " ";
  const auto pieces = learn({alphabet, "q q x x"}, 16);
  EXPECT_EQ(pieces, (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e",
                                              "f", "q", "x"}));
  const WordPieceTokenizer tokenizer(pieces, false);
  EXPECT_EQ(tokenizer.encode("z"), std::vector<Token>{tokenizer.specials().unknown});
}

TEST(WordPieceLearning, Refusals) {
  EXPECT_EQ(error_of([] { learn({}, 100); }), "text: expected text for a vocabulary, got none");
  EXPECT_EQ(error_of([] { learn({" \t"}, 100); }), "text: expected text for a vocabulary, got none");
  EXPECT_EQ(usage_error_of([] { learn({"a"}, 15); }), "vocabulary: expected at least 16, got 15");
}

TEST(WordPieceLearning, KnowsEveryWordOfSst2) {
  const auto path = real_data("sst2/train.tsv");
  if (path.empty()) GTEST_SKIP() << "no sst2/train.tsv among the shared data";
  const std::vector<std::string> lines = read_text_lines(path).lines;
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  const auto tokenizer = WordPieceTokenizer::learn(views, 8000, false, "sst2");
  EXPECT_EQ(tokenizer->vocabulary(), 8000);
  std::size_t words = 0, pieces = 0;
  for (const std::string_view line : views) {
    words += bert_words(line, false).size();
    for (const Token token : tokenizer->encode(line)) {
      EXPECT_NE(token, tokenizer->specials().unknown) << line;
      ++pieces;
    }
  }
  EXPECT_LT(static_cast<double>(pieces), 1.2 * static_cast<double>(words));  // few words take two
}

}  // namespace
}  // namespace cogwheel::text
