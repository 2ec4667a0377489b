#include "cogwheel/tasks/encoders/sentence_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/encoders/toy_reviews.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::encoders {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers numbers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<std::int64_t>(), tensor.const_data_ptr<std::int64_t>() + tensor.numel()};
}

// [CLS] is 1, [SEP] 3, [MASK] 4, [PAD] 0, [UNK] 2; 20 words, from 5, and as many endings, from 25.
const text::WordPieceTokenizer& tokenizer() {
  static const text::WordPieceTokenizer made = [] {
    std::vector<std::string> pieces{"[PAD]", "[CLS]", "[UNK]", "[SEP]", "[MASK]"};
    for (const std::string before : {"", "##"})
      for (char letter = 'a'; letter < 'u'; ++letter) pieces.push_back(before + letter);
    return text::WordPieceTokenizer(std::move(pieces), false);
  }();
  return made;
}

TEST(EncoderBatch, HasSpecialTokensSegmentsAndPadding) {
  SentenceRows rows;
  rows.tokens.add(std::vector<Token>{5, 25}, std::vector<Token>{6}, 0);
  rows.tokens.add(std::vector<Token>{7}, {}, 1);
  rows.labels = {4, 9};
  const EncoderBatch batch = encoder_batch(rows, tokenizer(), Numbers{1, 0});
  EXPECT_EQ(batch.tokens.sizes(), (at::IntArrayRef{2, 6}));
  EXPECT_EQ(numbers(batch.tokens), (Numbers{1, 7, 3, 0, 0, 0, 1, 5, 25, 3, 6, 3}));
  EXPECT_EQ(numbers(batch.segments), (Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(numbers(batch.lengths), (Numbers{3, 6}));
  EXPECT_EQ(numbers(batch.labels), (Numbers{9, 4}));
  rows.labels.clear();
  EXPECT_FALSE(encoder_batch(rows, tokenizer(), Numbers{0}).labels.defined());
}

// Rows of 1 to 30 tokens: every third token goes on with the word before it.
SentenceRows many_rows(std::int64_t count) {
  SentenceRows rows;
  for (std::int64_t row = 0; row < count; ++row) {
    std::vector<Token> tokens;
    for (std::int64_t place = 0; place <= row * 7 % 30; ++place)
      tokens.push_back(static_cast<Token>((place % 3 == 2 ? 25 : 5) + (row + place) % 20));
    rows.tokens.add(tokens, {}, row);
  }
  return rows;
}

TEST(SentenceBatchPlan, HasEachRowOnceAndKeepsTheLimitOfTokens) {
  const SentenceRows rows = many_rows(300);
  const text::BatchPlan plan = sentence_batch_plan(rows, {.sentences = 0, .tokens = 200});
  std::set<std::int64_t> seen;
  std::int64_t places = 0, tokens = 0;
  for (std::int64_t step = 0; step < plan.batches(); ++step) {
    const auto chosen = plan.pairs(1, step);
    seen.insert(chosen.begin(), chosen.end());
    const EncoderBatch batch = encoder_batch(rows, tokenizer(), chosen);
    EXPECT_LE(batch.tokens.numel(), 200);
    places += batch.tokens.numel();
    for (const std::int64_t length : numbers(batch.lengths)) tokens += length;
  }
  EXPECT_EQ(seen.size(), 300u);
  EXPECT_LT(static_cast<double>(places), 1.05 * static_cast<double>(tokens));  // lengths of a batch are alike
  // A limit that is met exactly: eight rows of 25 tokens.
  SentenceRows equal;
  for (std::int64_t row = 0; row < 8; ++row) equal.tokens.add(std::vector<Token>(23, 5), {}, row);
  EXPECT_EQ(sentence_batch_plan(equal, {.sentences = 0, .tokens = 200}).batches(), 1);
  EXPECT_EQ(sentence_batch_plan(equal, {.sentences = 0, .tokens = 199}).batches(), 2);
}

struct Hidden {
  double chosen = 0, masked = 0, kept = 0, other = 0, tokens = 0;
  std::map<std::int64_t, int> replacements;
};

Hidden hidden_in(const SentenceRows& rows, const WordMasking& masking, std::int64_t steps) {
  Numbers all(static_cast<std::size_t>(rows.size()));
  for (std::size_t row = 0; row < all.size(); ++row) all[row] = static_cast<std::int64_t>(row);
  const Numbers before = numbers(encoder_batch(rows, tokenizer(), all).tokens);
  Hidden counts;
  for (std::int64_t step = 0; step < steps; ++step) {
    const MaskedBatch batch = masked_batch(rows, tokenizer(), all, masking, 7, step);
    const Numbers after = numbers(batch.batch.tokens), targets = numbers(batch.targets);
    std::int64_t words = 0;
    for (std::size_t place = 0; place < before.size(); ++place) {
      const bool special = before[place] < 5;
      counts.tokens += special ? 0 : 1;
      if (targets[place] == ignored_target) {
        EXPECT_EQ(after[place], before[place]);
        continue;
      }
      ++words;
      EXPECT_FALSE(special);
      EXPECT_EQ(targets[place], before[place]);
      if (after[place] == 4) {
        ++counts.masked;
      } else if (after[place] == before[place]) {
        ++counts.kept;
      } else {
        EXPECT_GE(after[place], 5);
        ++counts.other;
        ++counts.replacements[after[place]];
      }
    }
    EXPECT_EQ(batch.words, words);
    counts.chosen += static_cast<double>(words);
  }
  return counts;
}

TEST(MaskedBatch, ChoosesFifteenPercentOfWhichEightyTenTen) {
  const SentenceRows rows = many_rows(300);
  for (const bool whole : {false, true}) {
    const Hidden counts = hidden_in(rows, {.whole_words = whole}, 60);
    // Four deviations of shares of so many draws; those of words that are chosen together are larger.
    const auto near = [](double part, double of, double share) {
      EXPECT_NEAR(part / of, share, 6 * std::sqrt(share * (1 - share) / of));
    };
    near(counts.chosen, counts.tokens, 0.15);
    near(counts.masked, counts.chosen, 0.8);
    // One in 40 that are drawn is what was there.
    near(counts.other, counts.chosen, 0.1 * 39 / 40);
    near(counts.kept, counts.chosen, 0.1 + 0.1 / 40);
    EXPECT_EQ(counts.replacements.size(), 40u);  // any but special ones
  }
}

TEST(MaskedBatch, SharesOfARowVaryByLessThanOneToken) {
  SentenceRows rows;
  rows.tokens.add(std::vector<Token>(20, 5), {}, 0);
  rows.tokens.add(std::vector<Token>(10, 5), {}, 1);
  std::set<std::int64_t> seen;
  for (std::int64_t step = 0; step < 40; ++step) {
    EXPECT_EQ(masked_batch(rows, tokenizer(), Numbers{0}, {}, 1, step).words, 3);
    seen.insert(masked_batch(rows, tokenizer(), Numbers{1}, {}, 1, step).words);
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{1, 2}));
}

TEST(MaskedBatch, WholeWordsAreChosenTogether) {
  const SentenceRows rows = many_rows(200);
  Numbers all;
  for (std::int64_t row = 0; row < rows.size(); ++row) all.push_back(row);
  const Numbers before = numbers(encoder_batch(rows, tokenizer(), all).tokens);
  int together = 0, apart = 0;
  for (const bool whole : {true, false}) {
    const Numbers targets = numbers(masked_batch(rows, tokenizer(), all, {.whole_words = whole}, 3, 0).targets);
    for (std::size_t place = 1; place < before.size(); ++place) {
      if (before[place] < 25) continue;
      const bool same = (targets[place] == ignored_target) == (targets[place - 1] == ignored_target);
      if (whole) {
        EXPECT_TRUE(same);
        together += targets[place] != ignored_target ? 1 : 0;
      } else {
        apart += same ? 0 : 1;
      }
    }
  }
  EXPECT_GT(together, 20);
  EXPECT_GT(apart, 20);
}

TEST(MaskedBatch, FollowsFromSeedStepAndRow) {
  const SentenceRows rows = many_rows(100);
  const auto targets = [&](const Numbers& chosen, std::uint64_t seed, std::int64_t step) {
    return numbers(masked_batch(rows, tokenizer(), chosen, {}, seed, step).targets);
  };
  const Numbers both{29, 59};  // of the same length
  ASSERT_EQ(rows.length(29), rows.length(59));
  EXPECT_EQ(targets(both, 1, 5), targets(both, 1, 5));
  EXPECT_NE(targets(both, 1, 5), targets(both, 2, 5));
  EXPECT_NE(targets(both, 1, 5), targets(both, 1, 6));
  // In another batch and place, the row is hidden alike; and for evaluation at any time.
  const auto end = static_cast<std::ptrdiff_t>(rows.length(29));
  const auto tail = [&](const Numbers& all) { return Numbers(all.end() - end, all.end()); };
  EXPECT_EQ(tail(targets({59, 29}, 1, 5)), tail(targets({29}, 1, 5)));
  const auto fixed = [&](const Numbers& chosen) {
    return numbers(masked_evaluation_batch(rows, tokenizer(), chosen, {}).targets);
  };
  EXPECT_EQ(tail(fixed({59, 29})), tail(fixed({29})));
  EXPECT_NE(fixed({59, 29}), targets({59, 29}, 0, 0));
}

TEST(MaskedBatch, HidesATokenAtLeastButNoUnknownOne) {
  SentenceRows rows;
  rows.tokens.add(std::vector<Token>{2}, {}, 0);
  rows.tokens.add(std::vector<Token>{2, 6}, {}, 1);
  for (std::int64_t step = 0; step < 30; ++step) {
    const MaskedBatch batch = masked_batch(rows, tokenizer(), Numbers{0, 1}, {.probability = 0.01}, 1, step);
    EXPECT_EQ(batch.words, 1);
    EXPECT_EQ(numbers(batch.targets), (Numbers{-100, -100, -100, -100, -100, -100, 6, -100}));
  }
  EXPECT_EQ(masked_batch(rows, tokenizer(), Numbers{0}, {}, 1, 0).words, 0);
  EXPECT_EQ(usage_error_of([&] { masked_batch(rows, tokenizer(), Numbers{0}, {.probability = 0}, 1, 0); }),
            "masking probability: expected above 0, got 0");
  EXPECT_EQ(usage_error_of([&] { masked_batch(rows, tokenizer(), Numbers{0}, {.masked = 0.95}, 1, 0); }),
            "shares of [MASK] and of other tokens: expected at most 1, got 1.05");
}

const std::set<std::string> good_words{"superb", "funny",     "moving",     "clever",   "lovely",   "gripping",
                                       "warm",   "wonderful", "delightful", "flawless", "graceful", "peerless"},
    negation_words{"not", "never", "hardly"};

int count_words(const std::string& text, const std::set<std::string>& words) {
  std::istringstream stream(text);
  return static_cast<int>(std::count_if(std::istream_iterator<std::string>(stream), {},
                                        [&](const std::string& word) { return words.contains(word); }));
}

TEST(ToyReviews, AreOfTheirVocabularyAndHaveTheVerdictOfTheWhole) {
  const auto tokenizer = toy_review_tokenizer();
  int positive = 0, split = 0;
  std::set<std::string> different;
  for (std::int64_t index = 0; index < 600; ++index) {
    const ToyReview review = toy_review(3, index % 2 == 1, index);
    EXPECT_EQ(toy_review(3, index % 2 == 1, index).text, review.text);
    EXPECT_NE(toy_review(3, index % 2 == 0, index).text, review.text);
    different.insert(review.text);
    positive += review.positive ? 1 : 0;
    const auto tokens = tokenizer->encode(review.text);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), tokenizer->specials().unknown), 0) << review.text;
    split +=
        static_cast<int>(std::count_if(tokens.begin(), tokens.end(), [&](Token t) { return tokenizer->continues(t); }));
    // The clause about the whole, read by itself.
    std::string clause;
    for (std::size_t begin = 0; begin < review.text.size();) {
      const std::size_t end = std::min(review.text.find(" , ", begin), review.text.size());
      const std::string each = review.text.substr(begin, end - begin) + " ";
      for (const char* whole : {" film ", " movie ", " picture ", " story "})
        if (each.find(whole) != std::string::npos) clause += each;
      begin = end + 3;
    }
    const bool says = (count_words(clause, good_words) + count_words(clause, negation_words)) % 2 == 1;
    EXPECT_EQ(review.positive, says) << review.text;
  }
  EXPECT_NEAR(positive, 300, 75);
  EXPECT_GT(split, 100);
  EXPECT_GT(different.size(), 550u);
}

// The best that any function of the bag of words can do: each kind of bag takes the verdict that it has more often.
TEST(ToyReviews, BagsOfWordsFindThreeQuarters) {
  constexpr int all = 20000;
  std::map<std::array<std::int64_t, 3>, std::array<int, 2>> verdicts;
  for (int index = 0; index < all; ++index) {
    const ToyReview review = toy_review(1, false, index);
    ++verdicts[{review.clauses, count_words(review.text, good_words), count_words(review.text, negation_words)}]
              [review.positive ? 1 : 0];
  }
  int found = 0;
  for (const auto& [bag, count] : verdicts) found += std::max(count[0], count[1]);
  EXPECT_NEAR(static_cast<double>(found) / all, 0.753, 0.012);  // four deviations
}

TEST(ToyReviews, MakeACorpus) {
  const SentenceCorpus all = toy_review_corpus(0);
  const std::set<std::string> trained(all.training.texts.begin(), all.training.texts.end());
  for (const std::string& text : all.held_out.texts) EXPECT_FALSE(trained.contains(text)) << text;
  const SentenceCorpus corpus = toy_review_corpus(1, 200, 50);
  EXPECT_EQ(corpus.training.size(), 200);
  EXPECT_EQ(corpus.held_out.size(), 50);
  EXPECT_EQ(corpus.classes, (std::vector<std::string>{"negative", "positive"}));
  EXPECT_EQ(corpus.held_out.texts[7], toy_review(1, true, 7).text);
  EXPECT_EQ(corpus.tokenizer->decode(corpus.training.tokens.source(0)).find("[UNK]"), std::string::npos);
  EXPECT_NE(toy_review_corpus(2, 200, 50).sha256, corpus.sha256);
  EXPECT_EQ(toy_review_corpus(1, 200, 50).sha256, corpus.sha256);
  EXPECT_LE(corpus.longest, 40);
}

}  // namespace
}  // namespace cogwheel::tasks::encoders
