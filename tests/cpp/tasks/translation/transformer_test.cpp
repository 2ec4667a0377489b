// The encoder–decoder of attention layers: steps against whole passes, its loss, its weights, and beam search over it.
// Its formulas are in tests/python/test_translation_transformer.py.
#include "cogwheel/tasks/translation/transformer.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/token.h"
#include "cogwheel/tasks/translation/beam_search.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::translation::transformer_test {
namespace {

constexpr std::int64_t vocabulary = 11, context = 12;

Transformer make(const std::string& mechanism, const std::string& position, at::ScalarType type = at::kDouble) {
  TransformerOptions options;
  options.vocabulary = vocabulary;
  options.context = context;
  options.layers = 2;
  options.heads = 4;
  options.key_value_heads = 2;
  options.width = 32;
  options.position = position;
  options.mechanism = mechanism;
  options.dropout = 0.2;
  Transformer model(options);
  model->initialize(3);
  model->to(type);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->parameters())
    if (parameter.dim() == 2) parameter.mul_(8);  // logits far from uniform
  return model;
}
const std::vector<std::pair<std::string, std::string>> cases{
    {"softmax", "learned"}, {"cog+softmax", "rotary"}, {"differential", "rotary_halves"}, {"sigmoid", "none"}};

struct Given {
  at::Tensor source =
      at::tensor({4, 5, 6, 7, 8, 9, 3, 5, 5, 3, 0, 0, 0, 0, 7, 6, 4, 9, 3, 0, 0}, at::kLong).view({3, 7});
  at::Tensor lengths = at::tensor({7, 3, 5}, at::kLong);
  at::Tensor inputs = at::tensor({2, 4, 6, 8, 5, 2, 9, 9, 0, 0, 2, 5, 0, 0, 0}, at::kLong).view({3, 5});
  at::Tensor targets = at::tensor({4, 6, 8, 5, 3, 9, 9, 3, -100, -100, 5, 3, -100, -100, -100}, at::kLong).view({3, 5});
};

TEST(Transformer, StepsGiveTheNumbersOfAWholePass) {
  const torch::NoGradGuard no_grad;
  const Given given;
  for (const auto& [mechanism, position] : cases) {
    SCOPED_TRACE(mechanism);
    Transformer model = make(mechanism, position);
    const at::Tensor whole = model->forward(given.source, given.lengths, given.inputs);
    auto state = model->start(given.source, given.lengths);
    const at::Tensor doubled = at::tensor({2, 0, 2}, at::kLong);
    for (std::int64_t step = 0; step < given.inputs.size(1); ++step) {
      // A fork goes its own way: what follows other tokens there changes nothing here.
      auto other = state->fork(doubled);
      const at::Tensor there = model->next_logits(*other, given.inputs.select(1, step).index_select(0, doubled)),
                       here = model->next_logits(*state, given.inputs.select(1, step));
      EXPECT_TRUE(here.allclose(whole.select(1, step), 1e-10, 1e-10)) << step;
      EXPECT_TRUE(there.allclose(whole.select(1, step).index_select(0, doubled), 1e-10, 1e-10)) << step;
    }
  }
}

TEST(Transformer, LossIsThatOfItsLogits) {
  const Given given;
  for (const auto& [mechanism, position] : cases) {
    SCOPED_TRACE(mechanism);
    Transformer model = make(mechanism, position);
    const at::Tensor loss = model->loss(given.source, given.lengths, given.inputs, given.targets, 0.1);
    const at::Tensor expected =
        at::cross_entropy_loss(model->forward(given.source, given.lengths, given.inputs).flatten(0, 1),
                               given.targets.flatten(), {}, 1, ignored_target, 0.1);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
    const std::vector<at::Tensor> parameters = model->parameters();
    const auto got = torch::autograd::grad({loss}, parameters),
               of_logits = torch::autograd::grad({expected}, parameters);
    for (std::size_t index = 0; index < got.size(); ++index)
      EXPECT_TRUE(got[index].allclose(of_logits[index], 1e-9, 1e-11)) << index;
  }
}

TEST(Transformer, DropoutFollowsFromItsSeed) {
  const Given given;
  Transformer model = make("softmax", "learned", at::kFloat);
  const auto loss = [&](const nn::Dropout& dropout) {
    return model->loss(given.source, given.lengths, given.inputs, given.targets, 0, dropout).item<double>();
  };
  EXPECT_EQ(loss(model->dropout(1)), loss(model->dropout(1)));
  EXPECT_NE(loss(model->dropout(1)), loss(model->dropout(2)));
  EXPECT_NE(loss(model->dropout(1)), loss({}));
}

TEST(Transformer, WeightsOfTheSourceAreThoseOfALayer) {
  const torch::NoGradGuard no_grad;
  const Given given;
  Transformer model = make("softmax", "learned");
  const at::Tensor chosen = model->source_weights(given.source, given.lengths, given.inputs);
  ASSERT_EQ(chosen.sizes(), at::IntArrayRef({3, 4, 5, 7}));
  EXPECT_TRUE(chosen.equal(model->source_weights(given.source, given.lengths, given.inputs, 0)));
  EXPECT_FALSE(chosen.allclose(model->source_weights(given.source, given.lengths, given.inputs, 1)));
  EXPECT_TRUE(chosen.sum(-1).allclose(at::ones({3, 4, 5}, at::kDouble)));
  EXPECT_EQ(chosen[1].narrow(-1, 3, 4).abs().max().item<double>(), 0);
  const std::string message =
      usage_error_of([&] { model->source_weights(given.source, given.lengths, given.inputs, 2); });
  EXPECT_EQ(message, "alignment layer: expected at most 1, got 2");
}

TEST(Transformer, ABeamOfOneTakesTheMostProbableTokenAndEndsWithTheContext) {
  const torch::NoGradGuard no_grad;
  const Given given;
  for (const auto& [mechanism, position] : cases) {
    SCOPED_TRACE(mechanism);
    Transformer model = make(mechanism, position, at::kFloat);
    model->named_parameters()["output_bias"][3] = -5;  // most do not end before the context does
    const auto found = beam_search(*model, given.source, given.lengths, 2, 3, {.beam = 1});
    const auto wider = beam_search(*model, given.source, given.lengths, 2, 3, {.beam = 4});
    for (std::int64_t row = 0; row < 3; ++row) {
      const Translation& each = found[static_cast<std::size_t>(row)];
      const at::Tensor length = given.lengths.narrow(0, row, 1);
      auto state = model->start(given.source.narrow(0, row, 1).narrow(1, 0, length.item<std::int64_t>()), length);
      std::int64_t token = 2;
      for (const Token expected : each.tokens) {
        token = model->next_logits(*state, at::tensor({token}, at::kLong)).argmax().item<std::int64_t>();
        EXPECT_EQ(token, expected);
      }
      EXPECT_LE(std::ssize(each.tokens), context);
      EXPECT_TRUE(each.ended || std::ssize(each.tokens) == context);
      EXPECT_LE(std::ssize(wider[static_cast<std::size_t>(row)].tokens), context);
    }
    const at::Tensor weights = alignment_weights(*model, given.source, given.lengths, 2, wider);
    EXPECT_LE(weights.size(2), context);
    EXPECT_TRUE(weights.isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace cogwheel::tasks::translation::transformer_test
