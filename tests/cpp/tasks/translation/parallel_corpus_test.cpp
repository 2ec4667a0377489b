#include "cogwheel/tasks/translation/parallel_corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "cogwheel/core/random.h"
#include "cogwheel/tasks/translation/sentence_batch.h"
#include "cogwheel/text/batch_plan.h"
#include "cogwheel/text/text_record.h"
#include "support/error_of.h"
#include "support/gzip.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::translation {
namespace {

// Pairs of 1 to 9 words, the target one word longer.
std::string lines_of(int count, const std::string& word, int more) {
  std::string text;
  for (int line = 0; line < count; ++line) {
    text += word + std::to_string(line + 100);
    for (int left = line % 9 + more; left > 0; --left) text += " " + word;
    text += "\n";
  }
  return text;
}

class ParallelCorpusTest : public testing::Test {
 protected:
  ParallelOptions options(const std::string& source, const std::string& target) {
    return {.training = {folder_.write("train.en", source), folder_.write("train.de", target)}, .vocabulary = 40};
  }
  TemporaryFolder folder_;
};

// The sides of the pairs of a source sentence each.
std::map<std::string, bool> sides_of(const ParallelCorpus& corpus) {
  std::map<std::string, bool> sides;
  for (const auto* pairs : {&corpus.training, &corpus.held_out})
    for (std::int64_t pair = 0; pair < pairs->size(); ++pair) {
      const bool held_out = pairs == &corpus.held_out;
      const auto [place, is_new] = sides.emplace(corpus.tokenizer->decode(pairs->source(pair)), held_out);
      EXPECT_EQ(place->second, held_out) << place->first;
    }
  return sides;
}

TEST_F(ParallelCorpusTest, HoldsOutATenthByWhatItIs) {
  const ParallelCorpus corpus = load_parallel_corpus(options(lines_of(50, "cat", 0), lines_of(50, "katze", 1)));
  EXPECT_EQ(corpus.name, "train.en, train.de");
  EXPECT_EQ(corpus.tokenizer->vocabulary(), 40);
  EXPECT_EQ(corpus.training.size(), 45);
  EXPECT_EQ(corpus.held_out.size(), 5);
  EXPECT_TRUE(corpus.test_is_held_out);
  EXPECT_EQ(corpus.test.source.size(), 5u);
  for (std::int64_t pair = 0; pair < 5; ++pair) {
    const std::string source = corpus.tokenizer->decode(corpus.held_out.source(pair));
    EXPECT_EQ(source, corpus.test.source[static_cast<std::size_t>(pair)]);
    EXPECT_EQ(corpus.tokenizer->decode(corpus.held_out.target(pair)).substr(5, 3), source.substr(3, 3));
  }
  EXPECT_EQ(dropped_text(corpus), "");
}

// Where lines stand does not matter, nor do copies, white space and letter case.
TEST_F(ParallelCorpusTest, CopiesAreOnOneSide) {
  std::string source = lines_of(40, "cat", 0), target = lines_of(40, "katze", 1);
  std::string upper = source, spaced = source;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (std::size_t at = 0; (at = spaced.find(' ', at)) != std::string::npos; at += 2) spaced.insert(at, " ");
  const ParallelCorpus corpus = load_parallel_corpus(options(source + upper + spaced, target + target + target));
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  std::map<std::string, bool> sides;
  for (const auto& [text, side] : sides_of(corpus)) EXPECT_EQ(sides.emplace(lower(text), side).first->second, side);
  EXPECT_EQ(sides.size(), 40u);
  EXPECT_EQ(corpus.held_out.size(), 12);
  EXPECT_NE(corpus.sha256, load_parallel_corpus(options(source, target)).sha256);
  EXPECT_EQ(
      error_of([&] { load_parallel_corpus(options("a\nA\n a\na\na\na\na\na\na\na\n", lines_of(10, "b", 0))); }),
      "train.en, train.de: expected two different source sentences or more, one to hold out, got only equal ones");
}

TEST_F(ParallelCorpusTest, FilesMayBeApartAndCompressed) {
  ParallelOptions given = options(lines_of(30, "cat", 0), lines_of(30, "katze", 1));
  const ParallelCorpus plain = load_parallel_corpus(given);
  for (auto* path : {&given.training.source, &given.training.target}) {
    const std::string text =
        lines_of(30, path == &given.training.source ? "cat" : "katze", path == &given.training.source ? 0 : 1);
    *path += ".gz";
    gzipped(text, *path);
  }
  given.held_out = {folder_.write("dev.en", "cat cat\n\n"), folder_.write("dev.de", "katze\nkatze\n")};
  given.test = {folder_.write("test.en", "a cat\n\n"), folder_.write("test.de", "eine katze\n\n")};
  const ParallelCorpus corpus = load_parallel_corpus(given);
  EXPECT_EQ(corpus.training.size(), 30);
  EXPECT_EQ(corpus.held_out.size(), 1);
  EXPECT_EQ(corpus.held_out.empty, 1);
  EXPECT_EQ(corpus.test.target, (std::vector<std::string>{"eine katze", ""}));  // every line
  EXPECT_FALSE(corpus.test_is_held_out);
  EXPECT_EQ(corpus.files.size(), 6u);
  EXPECT_EQ(corpus.files[0].sha256, plain.files[0].sha256);
  EXPECT_NE(corpus.sha256, plain.sha256);

  const auto record =
      folder_.write("text.json", text::text_record(corpus.name, corpus.bytes, corpus.sha256, corpus.files));
  EXPECT_EQ(text::first_change(record, corpus.files), "");
  folder_.write("dev.de", "katze\nkatzen\n");
  EXPECT_EQ(text::first_change(record, load_parallel_corpus(given, corpus.tokenizer).files),
            (folder_.path() / "dev.de").string() + " has changed");
}

TEST_F(ParallelCorpusTest, DropsAndCountsPairs) {
  std::string source = lines_of(30, "cat", 0), target = lines_of(30, "katze", 1);
  source += "\ncat \n  \ncat100\n", target += "katze\n\n\t\nkater\n";
  source += "cat\n", target += lines_of(1, "katze", 80);
  ParallelOptions given = options(source, target);
  given.longest = 60;
  const ParallelCorpus corpus = load_parallel_corpus(given);
  EXPECT_EQ(dropped_text(corpus), "pairs of sentences: 3 with an empty side, 1 longer than 60 tokens");
}

TEST_F(ParallelCorpusTest, Refusals) {
  EXPECT_EQ(error_of([&] { load_parallel_corpus(options(lines_of(30, "a", 0), lines_of(29, "b", 0))); }),
            (folder_.path() / "train.de").string() + ": expected 30 lines, as " +
                (folder_.path() / "train.en").string() + " has, got 29 lines");
  EXPECT_EQ(error_of([&] { load_parallel_corpus(options(lines_of(9, "a", 0), lines_of(9, "b", 0))); }),
            "train.en, train.de: expected 10 pairs of sentences at least, of which a tenth is held out, got 9");
  std::string blank(30, '\n');
  EXPECT_EQ(
      error_of([&] { load_parallel_corpus(options(lines_of(30, "a", 0), blank)); }),
      "train.en, train.de: expected pairs of sentences to learn from, got 30 with an empty side and 0 longer than "
      "100 tokens");
  ParallelOptions one = options(lines_of(30, "a", 0), lines_of(30, "b", 0));
  one.test.target = "test.de";
  EXPECT_EQ(usage_error_of([&] { load_parallel_corpus(one); }),
            "test files: expected a source and a target file, got only test.de");
  EXPECT_EQ(usage_error_of([] { load_parallel_corpus({}); }),
            "parallel text: expected a source and a target file, got none");
}

TEST_F(ParallelCorpusTest, ToTranslateAnEmptyLineStaysEmptyAndALongOneIsCut) {
  const text::WordTokenizer tokenizer({"cat"});
  EXPECT_TRUE(source_sentence(tokenizer, "", 3).tokens.empty());
  EXPECT_FALSE(source_sentence(tokenizer, "cat cat cat", 3).cut);
  EXPECT_TRUE(source_sentence(tokenizer, "cat cat cat cat", 3).cut);
  EXPECT_EQ(source_sentence(tokenizer, "cat cat cat cat", 3).tokens.size(), 3u);
}

text::SentencePairs pairs_of_lengths(std::int64_t count) {
  text::SentencePairs pairs;
  for (std::int64_t pair = 0; pair < count; ++pair)
    pairs.add(std::vector<Token>(static_cast<std::size_t>(1 + pair * 7 % 13), static_cast<Token>(4 + pair)),
              std::vector<Token>(static_cast<std::size_t>(1 + pair * 7 % 5), static_cast<Token>(4 + pair)), pair);
  return pairs;
}

TEST(SeededPermutation, HasEveryPlaceOnceAndEachAtEveryPlace) {
  for (const std::uint64_t count : {1, 2, 3, 4, 5, 16, 17, 64, 65, 1000}) {
    std::set<std::uint64_t> seen, first;
    for (std::uint64_t place = 0; place < count; ++place) seen.insert(SeededPermutation(count, 7)(place));
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
    for (std::uint64_t seed = 0; seed < 12 * count; ++seed) first.insert(SeededPermutation(count, seed)(0));
    EXPECT_EQ(first.size(), count);
  }
}

TEST(BatchPlan, AnEpochHasEveryPairOnce) {
  const text::SentencePairs pairs = pairs_of_lengths(500);
  for (const text::BatchSize size :
       {text::BatchSize{.sentences = 32}, text::BatchSize{.sentences = 0, .tokens = 300},
        text::BatchSize{.sentences = 7, .tokens = 120}, text::BatchSize{.sentences = 1000}}) {
    const text::BatchPlan plan(pairs, size);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::multiset<std::int64_t> seen;
      for (std::int64_t step = 0; step < plan.batches(); ++step) {
        const auto chosen = plan.pairs(11, epoch * plan.batches() + step);
        seen.insert(chosen.begin(), chosen.end());
        const SentenceBatch batch = sentence_batch(pairs, chosen);
        EXPECT_TRUE(size.sentences == 0 || std::ssize(chosen) <= size.sentences);
        EXPECT_TRUE(size.tokens == 0 || batch.source.tokens.numel() + batch.inputs.numel() <= size.tokens);
      }
      ASSERT_EQ(seen.size(), 500u);
      EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 500u);
    }
  }
}

TEST(BatchPlan, IsAFunctionOfSeedAndStep) {
  const text::SentencePairs pairs = pairs_of_lengths(500);
  const text::BatchPlan plan(pairs, {.sentences = 32}), again(pairs, {.sentences = 32});
  EXPECT_EQ(plan.batches(), 16);
  EXPECT_EQ(plan.pairs(1, 1000), again.pairs(1, 1000));  // no step before it was asked for
  EXPECT_NE(plan.pairs(1, 0), plan.pairs(2, 0));
  EXPECT_NE(plan.pairs(1, 0), plan.pairs(1, 16));
  // Batches of other epochs are not the same ones in another order.
  std::set<std::vector<std::int64_t>> first, second;
  for (std::int64_t step = 0; step < 16; ++step)
    first.insert(plan.pairs(1, step)), second.insert(plan.pairs(1, 16 + step));
  EXPECT_NE(first, second);
}

TEST(BatchPlan, LengthsOfABatchAreAlike) {
  const text::SentencePairs pairs = pairs_of_lengths(5000);
  const text::BatchPlan plan(pairs, {.sentences = 50});
  std::int64_t places = 0;
  for (std::int64_t step = 0; step < plan.batches(); ++step) {
    const SentenceBatch batch = sentence_batch(pairs, plan.pairs(1, step));
    places += batch.source.tokens.numel();
  }
  EXPECT_LT(double(places), 1.05 * double(pairs.source_tokens() + pairs.size()));
}

TEST(BatchPlan, EvaluationUsesEachPairOnce) {
  const text::SentencePairs pairs = pairs_of_lengths(45);
  const text::BatchPlan plan(pairs, {.sentences = 10});
  std::set<std::int64_t> seen;
  for (std::int64_t batch = 0; batch < plan.batches(); ++batch)
    for (const std::int64_t pair : plan.pairs_in_order(batch)) EXPECT_TRUE(seen.insert(pair).second);
  EXPECT_EQ(seen.size(), 45u);
  EXPECT_EQ(usage_error_of([&] { text::BatchPlan(pairs, {.sentences = 0}); }),
            "batch: expected a number of sentences or tokens, at least 1, got 0 sentences and 0 tokens");
}

TEST(SentenceBatch, IsPaddedAtTheEnds) {
  text::SentencePairs pairs;
  pairs.add(std::vector<Token>{7, 8}, std::vector<Token>{9}, 0);
  pairs.add(std::vector<Token>{7}, std::vector<Token>{10, 11}, 1);
  const SentenceBatch batch = sentence_batch(pairs, std::vector<std::int64_t>{1, 0});
  const auto rows = [](const at::Tensor& tensor) {
    return std::vector<std::int64_t>(tensor.const_data_ptr<std::int64_t>(),
                                     tensor.const_data_ptr<std::int64_t>() + tensor.numel());
  };
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(rows(batch.source.tokens), (Rows{7, 3, 0, 7, 8, 3}));
  EXPECT_EQ(rows(batch.source.lengths), (Rows{2, 3}));
  EXPECT_EQ(rows(batch.inputs), (Rows{2, 10, 11, 2, 9, 0}));
  EXPECT_EQ(rows(batch.targets), (Rows{10, 11, 3, 9, 3, -100}));
  EXPECT_EQ(rows(batch.target_lengths), (Rows{3, 2}));
  EXPECT_EQ(batch.tokens, 5);
  EXPECT_EQ(rows(source_batch(std::vector<std::vector<Token>>{{}, {5}}).tokens), (Rows{3, 0, 5, 3}));
}

}  // namespace
}  // namespace cogwheel::tasks::translation
