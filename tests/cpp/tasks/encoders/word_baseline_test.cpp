#include "cogwheel/tasks/encoders/word_baseline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/tasks/encoders/toy_reviews.h"
#include "support/real_data.h"

namespace cogwheel::tasks::encoders {
namespace {

SentenceRows labelled(std::vector<std::string> texts, std::vector<std::int64_t> labels) {
  SentenceRows rows;
  rows.texts = std::move(texts);
  rows.labels = std::move(labels);
  return rows;
}

// The example of Manning, Raghavan and Schütze (2008), table 13.1: P(China | d) ∝ 3/4 (3/7)³ 1/14 1/14 ≈ 0.0003 against
// 1/4 (2/9)³ 2/9 2/9 ≈ 0.0001.
TEST(NaiveBayes, WorksTheExampleOfTheBook) {
  const NaiveBayes bayes(
      labelled({"Chinese Beijing Chinese", "Chinese Chinese Shanghai", "Chinese Macao", "Tokyo Japan Chinese"},
               {1, 1, 1, 0}),
      2);
  EXPECT_EQ(bayes.classify("Chinese Chinese Chinese Tokyo Japan"), 1);
  // 3/4 (3/7)² / 14² = 0.00070 against 1/4 (2/9)⁴ = 0.00061, and with one Chinese less 0.0016 against 0.0027.
  EXPECT_EQ(bayes.classify("chinese CHINESE tokyo japan"), 1);
  EXPECT_EQ(bayes.classify("Chinese, Tokyo Japan"), 0);
  EXPECT_EQ(bayes.classify(""), 1);
  EXPECT_EQ(bayes.accuracy(labelled({"Tokyo Japan", "", "Tokyo"}, {0, 0, 0})), 2. / 3);
}

TEST(NaiveBayes, FindsFourFifthsOfSst2) {
  const auto training = real_data("sst2/train.tsv"), held_out = real_data("sst2/dev.tsv");
  if (training.empty() || held_out.empty()) GTEST_SKIP() << "no sst2 among the shared data";
  const SentenceCorpus corpus = load_sentence_corpus({.training = training, .held_out = held_out, .vocabulary = 1000});
  EXPECT_EQ(NaiveBayes(corpus.training, 2).accuracy(corpus.held_out), 703. / 872);  // 80.6 %
}

// No bag of words can do more than 75.3 %; a deviation over so many reviews is 0.6 %.
TEST(NaiveBayes, CannotReadToyReviews) {
  const SentenceCorpus corpus = toy_review_corpus(5, 4000, 5000);
  const double accuracy = NaiveBayes(corpus.training, 2).accuracy(corpus.held_out);
  EXPECT_LT(accuracy, 0.753 + 0.025);
  EXPECT_GT(accuracy, 0.5 + 0.025);
}

TEST(Unigrams, EntropyInNats) {
  const text::WordPieceTokenizer tokenizer({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"}, false);
  SentenceRows rows, other;
  rows.tokens.add(std::vector<Token>{5, 1, 5}, std::vector<Token>{6}, 0);  // [UNK] does not count
  rows.tokens.add(std::vector<Token>{6}, {}, 1);
  other.tokens.add(std::vector<Token>{5, 7}, {}, 0);
  const Unigrams of_rows(rows, tokenizer), of_other(other, tokenizer);
  EXPECT_EQ(of_rows.tokens(), 4);
  EXPECT_NEAR(of_rows.entropy(), std::log(2), 1e-15);
  // (2 + 1) / (4 + 3) and (0 + 1) / (4 + 3).
  EXPECT_NEAR(of_rows.cross_entropy(of_other), -(std::log(3. / 7) + std::log(1. / 7)) / 2, 1e-15);
  EXPECT_GT(of_rows.cross_entropy(of_rows), of_rows.entropy());
  EXPECT_EQ(Unigrams(SentenceRows(), tokenizer).entropy(), 0);
}

}  // namespace
}  // namespace cogwheel::tasks::encoders
