#include "cogwheel/tasks/translation/toy_translation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace cogwheel::tasks::translation {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(ToyTranslation, ASentenceByHand) {
  // The first sentence of a seed whose every rule shows: the noun before its adjectives, in reverse order; the verb
  // last; "the" within the noun; a word in two.
  const ToySentence sentence = toy_sentence({}, 1, ToyPart::training, 0);
  EXPECT_EQ(joined(sentence.source), "the horse remembers the small white snowman under the horse");
  EXPECT_EQ(joined(sentence.target), "cevalola virola nega blanka eta sub cevalola tenas kape");
  const std::vector<WordLink> links{{1, 0, true}, {0, 0, false}, {6, 1, true}, {3, 1, false},
                                    {6, 2, true}, {5, 3, true},  {4, 4, true}, {7, 5, true},
                                    {9, 6, true}, {8, 6, false}, {2, 7, true}, {2, 8, true}};
  EXPECT_EQ(sentence.links, links);
}

TEST(ToyTranslation, DependsOnSeedPartAndIndexAlone) {
  std::set<std::string> sources;
  for (std::int64_t index = 0; index < 200; ++index) {
    const ToySentence sentence = toy_sentence({.distance = 7}, 3, ToyPart::training, index);
    const ToySentence again = toy_sentence({.distance = 7}, 3, ToyPart::training, index);
    EXPECT_EQ(sentence.source, again.source);
    EXPECT_EQ(sentence.target, again.target);
    for (const auto part : {ToyPart::held_out, ToyPart::test})
      EXPECT_NE(sentence.source, toy_sentence({.distance = 7}, 3, part, index).source);
    EXPECT_NE(sentence.source, toy_sentence({.distance = 7}, 4, ToyPart::training, index).source);
    sources.insert(joined(sentence.source));
  }
  EXPECT_EQ(sources.size(), 200u);
}

TEST(ToyTranslation, NoSentenceIsLongerThanItSays) {
  for (const std::int64_t distance : {0, 1, 3, 8, 20, 64}) {
    const ToyLanguage language{.distance = distance};
    std::int64_t longest = 0;
    for (std::int64_t index = 0; index < 3000; ++index) {
      const ToySentence sentence = toy_sentence(language, 6, ToyPart::training, index);
      longest = std::max<std::int64_t>({longest, std::ssize(sentence.source), std::ssize(sentence.target)});
    }
    EXPECT_LE(longest, language.longest());
    EXPECT_GE(longest, language.longest() - 2 - distance / 3);
  }
}

TEST(ToyTranslation, EveryTargetWordHasOneSureSource) {
  const auto tokenizer = toy_tokenizer();
  for (std::int64_t index = 0; index < 500; ++index) {
    const ToySentence sentence = toy_sentence({.distance = index % 12}, 5, ToyPart::held_out, index);
    std::vector<int> sure(sentence.target.size());
    std::set<std::int64_t> linked;
    for (const WordLink& link : sentence.links) {
      ASSERT_LT(link.source, std::ssize(sentence.source));
      sure.at(static_cast<std::size_t>(link.target)) += link.sure;
      linked.insert(link.source);
    }
    EXPECT_TRUE(std::all_of(sure.begin(), sure.end(), [](int count) { return count == 1; }));
    EXPECT_EQ(linked.size(), sentence.source.size());
    for (const auto& words : {sentence.source, sentence.target}) {
      const auto tokens = tokenizer->encode(joined(words));
      EXPECT_EQ(tokens.size(), words.size());
      EXPECT_EQ(std::count(tokens.begin(), tokens.end(), text::SentenceTokens::unknown), 0);
      EXPECT_EQ(tokenizer->decode(tokens), joined(words));
    }
  }
}

// What a window of D words around a word's own place holds.
TEST(ToyTranslation, WordsMoveFurtherThanAWindowWhereTheyAreToldTo) {
  const auto share_beyond = [](std::int64_t distance, std::int64_t window) {
    double beyond = 0, all = 0;
    for (std::int64_t index = 0; index < 400; ++index)
      for (const WordLink& link : toy_sentence({.distance = distance}, 1, ToyPart::training, index).links)
        if (link.sure) ++all, beyond += std::abs(link.source - link.target) > window;
    return beyond / all;
  };
  EXPECT_LT(share_beyond(0, 4), 0.12);
  EXPECT_GT(share_beyond(8, 4), 0.9);
  EXPECT_GT(share_beyond(8, 3), 0.95);
}

TEST(ToyTranslation, PairsAreTheSentencesAsTokens) {
  const text::SentencePairs pairs = toy_pairs({.distance = 4}, 2, ToyPart::test, 10, 3);
  ASSERT_EQ(pairs.size(), 3);
  const ToySentence second = toy_sentence({.distance = 4}, 2, ToyPart::test, 11);
  EXPECT_EQ(toy_tokenizer()->decode(pairs.source(1)), joined(second.source));
  EXPECT_EQ(toy_tokenizer()->decode(pairs.target(1)), joined(second.target));
  EXPECT_EQ(pairs.line(1), 11);
}

TEST(ToyTranslation, AsManyWordsAreMovedAsAsked) {
  for (std::int64_t distance = 0; distance <= 20; ++distance)
    EXPECT_EQ(toy_sentence({.distance = distance}, 1, ToyPart::training, distance).source.size(),
              toy_sentence({.distance = 0}, 1, ToyPart::training, distance).source.size() +
                  static_cast<std::size_t>(distance));
}

}  // namespace
}  // namespace cogwheel::tasks::translation
