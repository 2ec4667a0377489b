#include "cogwheel/research/labs/lecture/word_errors.h"

#include <gtest/gtest.h>

namespace cogwheel::labs {
namespace {

TEST(WordErrors, EditsAreTheFewestThatAreNeeded) {
  EXPECT_EQ(word_edits({}, {}), 0);
  EXPECT_EQ(word_edits({1, 2, 3}, {1, 2, 3}), 0);
  EXPECT_EQ(word_edits({}, {1, 2}), 2);
  EXPECT_EQ(word_edits({1, 2}, {}), 2);
  EXPECT_EQ(word_edits({1, 2, 3}, {1, 9, 3}), 1);
  EXPECT_EQ(word_edits({2, 3, 4}, {1, 2, 3, 4}), 1);
  EXPECT_EQ(word_edits({1, 2, 3, 4}, {2, 3, 4, 5}), 2);  // one out in front, one in behind
  EXPECT_EQ(word_edits({'k', 'i', 't', 't', 'e', 'n'}, {'s', 'i', 't', 't', 'i', 'n', 'g'}), 3);
  EXPECT_EQ(word_edits({1, 2}, {2, 1}), 2);
}

TEST(WordErrors, RatesAreOverTheWordsOfTheTruth) {
  WordErrors errors;
  errors.add({1, 2, 3}, {1, 2, 3});
  errors.add({1, 1, 1, 1}, {2});
  EXPECT_EQ(errors.edits, 4);
  EXPECT_DOUBLE_EQ(errors.rate(), 1);
  EXPECT_DOUBLE_EQ(errors.right_sentences(), 0.5);
  EXPECT_EQ(WordErrors().rate(), 0);
}

TEST(WordErrors, QuartersAreOfTheShortestAndTheLongest) {
  ErrorsByLength errors;
  for (const auto& [length, sentences, edits] : {std::tuple{3, 2, 1}, {4, 3, 10}, {5, 9, 100}, {8, 6, 1000}})
    errors[length] = {.sentences = sentences, .wrong_sentences = 0, .words = sentences, .edits = edits};
  EXPECT_EQ(quarter_of(errors, false).edits, 11);   // 5 of 20
  EXPECT_EQ(quarter_of(errors, true).edits, 1000);  // 6 of 20
  EXPECT_EQ(quarter_of({}, true).sentences, 0);
}

}  // namespace
}  // namespace cogwheel::labs
