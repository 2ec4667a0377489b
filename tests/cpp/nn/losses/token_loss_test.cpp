#include "cogwheel/nn/losses/token_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/matrix_product.h"

namespace cogwheel::nn {
namespace {

struct Problem {
  at::Tensor logits, targets;
  Problem(std::int64_t tokens, std::int64_t vocabulary, at::ScalarType type) {
    torch::manual_seed(0);
    logits = (3 * at::randn({tokens, vocabulary}, at::kDouble)).to(type);
    targets = at::randint(vocabulary, {tokens}, at::kLong);
  }
};

// By libtorch's own loss, in float64.
std::pair<at::Tensor, at::Tensor> expected(const Problem& problem, double smoothing) {
  const at::Tensor logits = problem.logits.to(at::kDouble).clone().requires_grad_(true);
  const at::Tensor loss =
      at::cross_entropy_loss(logits, problem.targets, {}, at::Reduction::Mean, /*ignore_index=*/-100, smoothing);
  loss.backward();
  return {loss.detach(), logits.grad()};
}

void expect_same(const Problem& problem, double smoothing, double tolerance) {
  const auto [loss, gradient] = expected(problem, smoothing);
  const at::Tensor leaf = problem.logits.clone().requires_grad_(true);
  const at::Tensor found = token_loss(leaf * 1, problem.targets, smoothing);
  EXPECT_NEAR(found.item<double>(), loss.item<double>(), tolerance * loss.item<double>());
  // The chain rule beyond it.
  (found * 2).backward();
  const double error = (leaf.grad().to(at::kDouble) / 2 - gradient).abs().max().item<double>();
  EXPECT_LE(error, tolerance * gradient.abs().max().item<double>());
  // Without a gradient the logits stay.
  const torch::NoGradGuard no_grad;
  const at::Tensor logits = problem.logits.clone();
  EXPECT_EQ(token_loss(logits, problem.targets, smoothing).item<double>(), found.item<double>());
  EXPECT_TRUE(logits.equal(problem.logits));
}

TEST(TokenLoss, IsTheCrossEntropyWithSmoothing) {
  // One block and many; a vocabulary larger than a block.
  for (const auto& [tokens, vocabulary] : {std::pair{1, 2}, {7, 5}, {301, 4099}, {3, 300000}})
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens of " << vocabulary << ", smoothing " << smoothing);
      // libtorch's softmax adds the vocabulary one after the other, in as many parts as a register has numbers: with
      // AVX2 300,000 are off by 3.4e-5 in float32.
      const double terms = std::max(1.0, vocabulary / 1e5);
      expect_same({tokens, vocabulary, at::kDouble}, smoothing, terms * 1e-12);
      expect_same({tokens, vocabulary, at::kFloat}, smoothing, terms * 2e-5);
      expect_same({tokens, vocabulary, at::kBFloat16}, smoothing, 8e-3);
    }
}

TEST(TokenLoss, OfExtremeLogitsIsFinite) {
  Problem problem(4, 9, at::kFloat);
  problem.logits.select(0, 0).fill_(1e30);
  problem.logits.select(0, 1).fill_(-1e30);
  problem.logits.select(0, 2).select(0, problem.targets[2].item<std::int64_t>()).fill_(3e38);
  const at::Tensor leaf = problem.logits.clone().requires_grad_(true);
  const at::Tensor loss = token_loss(leaf * 1, problem.targets);
  loss.backward();
  EXPECT_TRUE(loss.isfinite().item<bool>());
  EXPECT_TRUE(leaf.grad().isfinite().all().item<bool>());
}

TEST(TokenLoss, NaNIsSeen) {
  Problem problem(300, 2000, at::kFloat);
  problem.logits[299][1999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(token_loss(problem.logits, problem.targets).isnan().item<bool>());
}

TEST(TokenLoss, WhoReadsTheLogitsAfterwardsIsRefused) {
  const Problem problem(5, 6, at::kFloat);
  const at::Tensor leaf = problem.logits.clone().requires_grad_(true), logits = leaf * 1;
  const at::Tensor squares = (logits * logits).sum();
  const at::Tensor loss = token_loss(logits, problem.targets) + squares;
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(TokenLoss, SaysWhatIsWrong) {
  const Problem problem(5, 6, at::kFloat);
  EXPECT_THROW(token_loss(problem.logits, problem.targets.slice(0, 1)), Error);
  EXPECT_THROW(token_loss(problem.logits.slice(0, 0, 0), problem.targets.slice(0, 0, 0)), Error);
  EXPECT_THROW(token_loss(problem.logits, at::full_like(problem.targets, 6)), Error);
  EXPECT_THROW(token_loss(problem.logits, at::full_like(problem.targets, -100)), Error);
}

// What a head reads, with a leaf for each of its tensors.
struct HeadProblem {
  at::Tensor x, weight, bias, targets;
  HeadProblem(std::int64_t tokens, std::int64_t width, std::int64_t vocabulary, bool biased, at::ScalarType type) {
    torch::manual_seed(1);
    const auto leaf = [&](at::IntArrayRef shape) {
      return at::randn(shape, at::kDouble).to(type).requires_grad_(true);
    };
    x = leaf({tokens, width}), weight = leaf({vocabulary, width});
    if (biased) bias = leaf({vocabulary});
    targets = at::randint(vocabulary, {tokens}, at::kLong);
  }
  std::vector<at::Tensor> gradients(const at::Tensor& loss) {
    loss.backward();
    std::vector<at::Tensor> all;
    for (at::Tensor* each : {&x, &weight, &bias})
      if (each->defined()) all.push_back(std::exchange(each->mutable_grad(), {}).to(at::kDouble));
    return all;
  }
};

TEST(HeadLoss, IsTheCrossEntropyOfAProductInBlocksOfAnySize) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const bool biased : {false, true}) {
      HeadProblem problem(23, 7, 11, biased, type);
      const at::Tensor expected =
          at::cross_entropy_loss(at::linear(problem.x, problem.weight, problem.bias).to(at::kDouble), problem.targets);
      const std::vector<at::Tensor> wanted = problem.gradients(expected * 3);
      const double tolerance = type == at::kDouble ? 1e-12 : 1e-5;
      // One row at a time, blocks that do not divide the rows, and all at once.
      for (const std::int64_t bytes : {1, 5 * 11 * 4, 1 << 20}) {
        const at::Tensor loss = head_loss(problem.x, problem.weight, problem.bias, problem.targets, bytes);
        EXPECT_NEAR(loss.item<double>(), expected.item<double>(), tolerance * expected.item<double>());
        const std::vector<at::Tensor> found = problem.gradients(loss * 3);
        ASSERT_EQ(found.size(), wanted.size());
        for (std::size_t index = 0; index < found.size(); ++index)
          EXPECT_LE((found[index] - wanted[index]).abs().max().item<double>(), tolerance) << index << ", " << bytes;
        const torch::NoGradGuard no_grad;
        EXPECT_EQ(head_loss(problem.x, problem.weight, problem.bias, problem.targets, bytes).item<double>(),
                  loss.item<double>());
      }
    }
}

TEST(HeadLoss, RoundsItsProductsToBFloat16WhereTheyAre) {
  HeadProblem problem(64, 32, 50, true, at::kFloat);
  const at::Tensor exact = head_loss(problem.x, problem.weight, problem.bias, problem.targets);
  const std::vector<at::Tensor> wanted = problem.gradients(exact);
  const BFloat16Products products;
  const at::Tensor loss = head_loss(problem.x, problem.weight, problem.bias, problem.targets, 9 * 50 * 4);
  EXPECT_NEAR(loss.item<double>(), exact.item<double>(), 2e-2 * exact.item<double>());
  EXPECT_NE(loss.item<double>(), exact.item<double>());
  const std::vector<at::Tensor> found = problem.gradients(loss);
  for (std::size_t index = 0; index < found.size(); ++index)
    EXPECT_LE((found[index] - wanted[index]).norm().item<double>(), 2e-2 * wanted[index].norm().item<double>());
  EXPECT_EQ(problem.weight.scalar_type(), at::kFloat);
}

TEST(HeadLoss, SaysWhatIsWrong) {
  const HeadProblem problem(5, 3, 6, false, at::kFloat);
  EXPECT_THROW(head_loss(problem.x, problem.weight, {}, problem.targets.slice(0, 1)), Error);
  EXPECT_THROW(head_loss(problem.x, problem.weight, {}, at::full_like(problem.targets, 6)), Error);
}

}  // namespace
}  // namespace cogwheel::nn
