// The forerunners of self-attention: the penalty of learned queries, and made-up pairs. The models' formulas are in
// tests/python/test_forerunners.py.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/recurrent_network.h"
#include "cogwheel/tasks/encoders/decomposable.h"
#include "cogwheel/tasks/encoders/lstmn.h"
#include "cogwheel/tasks/encoders/structured.h"
#include "cogwheel/tasks/encoders/toy_pairs.h"
#include "cogwheel/tasks/encoders/toy_reviews.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::encoders::forerunners_test {
namespace {

StructuredOptions small_structured() {
  StructuredOptions options;
  options.vocabulary = 30, options.context = 12, options.width = 16, options.classes = 2;
  options.queries = 3, options.penalty = 0.7;
  return options;
}

// Sentence by sentence and query by query, from the states of the model's network.
TEST(Structured, PenaltyAndItsGradientsAreTheFormula) {
  Structured model(small_structured());
  model->initialize(3);
  model->to(at::kDouble);
  const at::Tensor tokens = torch::randint(0, 30, {2, 7}, at::kLong), lengths = torch::tensor({7, 4}, at::kLong);
  const auto weights = model->named_parameters();
  auto& network = dynamic_cast<nn::RecurrentNetworkImpl&>(*model->named_children()["network"]);
  at::Tensor expected = at::zeros({}, at::kDouble);
  for (std::int64_t row = 0; row < 2; ++row) {
    const at::Tensor own = tokens[row].narrow(0, 0, lengths[row].item<std::int64_t>());
    const at::Tensor states = network.forward(weights["embedding"].index({own}).unsqueeze(0)).output[0];
    const at::Tensor scores = weights["queries"].matmul(states.matmul(weights["key.weight"].t()).tanh().t());
    const at::Tensor a = scores.exp() / scores.exp().sum(1, true);
    for (std::int64_t one = 0; one < 3; ++one)
      for (std::int64_t other = 0; other < 3; ++other)
        expected = expected + ((a[one] * a[other]).sum() - (one == other ? 1 : 0)).square() / 2;  // of two sentences
    EXPECT_TRUE(at::allclose(model->weights(tokens, {.lengths = lengths})[row].narrow(1, 0, own.size(0)), a));
  }
  const at::Tensor penalty = model->classify(tokens, {}, {.lengths = lengths}, true).penalty;
  EXPECT_NEAR(penalty.item<double>(), 0.7 * expected.item<double>(), 1e-12);
  const auto gradients = [&](const at::Tensor& of) {
    return torch::autograd::grad({of}, model->parameters(), {}, true, false, true);
  };
  const auto got = gradients(penalty), wanted = gradients(0.7 * expected);
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), wanted[i].defined()) << weights.keys()[i];
    if (!got[i].defined()) continue;
    ++reached;
    EXPECT_TRUE(at::allclose(got[i], wanted[i], 1e-9, 1e-13)) << weights.keys()[i];
  }
  EXPECT_EQ(reached, 11);  // embeddings, the network's eight, W and Q; nothing of what reads the classes
  EXPECT_FALSE(model->classify(tokens, {}, {.lengths = lengths}).penalty.defined());
}

TEST(Structured, RedundancyOfWeightsThatAreKnown) {
  const at::Tensor apart = at::eye(4, at::kDouble).narrow(0, 0, 3).unsqueeze(0);
  EXPECT_EQ(redundancy(apart).item<double>(), 0);
  const at::Tensor alike = at::zeros({1, 3, 4}, at::kDouble);
  alike.select(2, 1).fill_(1);
  EXPECT_EQ(redundancy(alike).item<double>(), 6);  // six places beside the diagonal
  EXPECT_EQ(redundancy(at::cat({apart, alike})).item<double>(), 3);
}

TEST(Lstmn, KnowsNothingOfLaterTokens) {
  LstmnOptions options;
  options.vocabulary = 30, options.context = 12, options.width = 16, options.classes = 2;
  Lstmn model(options);
  model->initialize(3);
  const at::Tensor tokens = torch::randint(0, 30, {2, 9}, at::kLong);
  EXPECT_TRUE(at::allclose(model->states(tokens).narrow(1, 0, 5), model->states(tokens.narrow(1, 0, 5)), 1e-5, 1e-6));
}

TEST(Decomposable, RefusesRowsOfOneSentence) {
  DecomposableOptions options;
  options.vocabulary = 30, options.context = 12, options.width = 16, options.classes = 2;
  Decomposable model(options);
  model->initialize(3);
  const at::Tensor tokens = torch::randint(0, 30, {2, 5}, at::kLong), segments = at::zeros({2, 5}, at::kLong);
  const char* const message = "decomposable: expected two sentences in each row, got one";
  EXPECT_EQ(usage_error_of([&] { model->classify(tokens, {}, {}); }), message);
  EXPECT_EQ(usage_error_of([&] { model->classify(tokens, segments, {}); }), message);
  segments.narrow(1, 3, 2).fill_(1);
  EXPECT_EQ(usage_error_of([&] {
              model->classify(tokens, segments, {.lengths = torch::tensor({5, 3}, at::kLong)});
            }),
            message);
  EXPECT_TRUE(model->classify(tokens, segments, {}).logits.defined());
}

// By words alone: what a clause says of its subject.
bool praises(const std::string& clause) {
  const auto has = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) {
      return (" " + clause + " ").find(std::string(" ") + word + " ") != std::string::npos;
    });
  };
  const bool good = has({"superb", "funny", "moving", "clever", "lovely", "gripping", "warm", "wonderful", "delightful",
                         "flawless", "graceful", "peerless"});
  return good != has({"not", "never", "hardly"});
}

TEST(ToyPairs, FollowOrNotAsTheirLabelsSay) {
  double counts[3] = {};
  std::set<std::string> training;
  for (std::int64_t index = 0; index < 600; ++index) {
    const bool held_out = index >= 400;
    const ToyPair pair = toy_pair(1, held_out, index);
    ASSERT_LT(pair.label, 3);
    ++counts[pair.label];
    if (!held_out) training.insert(pair.first);
    EXPECT_FALSE(held_out && training.contains(pair.first));
    // The clause of the first sentence that has the second one's subject.
    std::string found;
    for (std::size_t begin = 0; begin < pair.first.size();) {
      const std::size_t end = std::min(pair.first.find(" , ", begin), pair.first.size());
      const std::string clause = pair.first.substr(begin, end - begin);
      for (const std::string subject : {"film", "movie", "picture", "story", "acting", "plot", "music", "ending",
                                        "cast", "script", "dialogue", "camera", "costume", "opening"})
        if ((" " + clause + " ").find(" " + subject + " ") != std::string::npos &&
            (" " + pair.second + " ").find(" " + subject + " ") != std::string::npos)
          found = clause;
      begin = end + 3;
    }
    const std::int64_t label = found.empty() ? 2 : praises(found) == praises(pair.second) ? 1 : 0;
    EXPECT_EQ(label, pair.label) << pair.first << " | " << pair.second;
  }
  for (const double count : counts) EXPECT_NEAR(count, 200, 40);
}

TEST(ToyPairs, MakeACorpus) {
  const SentenceCorpus corpus = toy_pair_corpus(0, 50, 20);
  EXPECT_EQ(corpus.training.size(), 50);
  EXPECT_EQ(corpus.held_out.size(), 20);
  EXPECT_TRUE(corpus.two_sentences);
  EXPECT_EQ(corpus.classes, (std::vector<std::string>{"contradiction", "entailment", "neutral"}));
  EXPECT_EQ(corpus.sha256, toy_pair_corpus(0, 50, 20).sha256);
  EXPECT_NE(corpus.sha256, toy_pair_corpus(1, 50, 20).sha256);
  for (std::int64_t row = 0; row < 50; ++row) {
    EXPECT_FALSE(corpus.training.tokens.target(row).empty());
    EXPECT_LE(corpus.training.length(row), corpus.longest);
    for (const Token token : corpus.training.tokens.target(row)) EXPECT_NE(token, corpus.tokenizer->specials().unknown);
  }
}

}  // namespace
}  // namespace cogwheel::tasks::encoders::forerunners_test
