// The loss with a teacher in it against its formula in float64, by autograd.
#include "cogwheel/nn/losses/distillation_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "support/error_of.h"

namespace cogwheel::nn::distillation_loss_test {
namespace {

struct Problem {
  at::Tensor x, weight, bias, targets;
  TeacherHead teacher;

  Problem(std::int64_t tokens, std::int64_t vocabulary, bool biased, at::ScalarType type) {
    torch::manual_seed(3);
    const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).to(type); };
    x = draw({tokens, 6}), weight = draw({vocabulary, 6}), targets = at::randint(vocabulary, {tokens}, at::kLong);
    teacher = {draw({tokens, 10}), draw({vocabulary, 10})};
    if (biased) bias = draw({vocabulary}), teacher.bias = draw({vocabulary});
  }
};

struct Result {
  at::Tensor loss, of_x, of_weight, of_bias;
};

Result gradients_of(const Problem& problem, at::ScalarType type, auto&& loss_of) {
  const auto leaf = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(type).clone().requires_grad_(true) : tensor;
  };
  const at::Tensor x = leaf(problem.x), weight = leaf(problem.weight), bias = leaf(problem.bias);
  const at::Tensor loss = loss_of(x, weight, bias);
  (3 * loss).backward();  // the chain rule beyond it
  return {loss.detach(), x.grad(), weight.grad(), bias.defined() ? bias.grad() : at::Tensor()};
}

Result expected(const Problem& problem, double share, double temperature) {
  return gradients_of(problem, at::kDouble, [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    const auto product = [](const at::Tensor& rows, const at::Tensor& matrix, const at::Tensor& offset) {
      const at::Tensor logits = rows.matmul(matrix.t());
      return offset.defined() ? logits + offset : logits;
    };
    const TeacherHead& teacher = problem.teacher;
    const at::Tensor own = product(x, weight, bias),
                     theirs = product(teacher.x.to(at::kDouble), teacher.weight.to(at::kDouble),
                                      teacher.bias.defined() ? teacher.bias.to(at::kDouble) : teacher.bias);
    const at::Tensor p = (theirs / temperature).softmax(1), q = (own / temperature).softmax(1);
    const at::Tensor divergence = (p * (p / q).log()).sum(1).mean();
    return (1 - share) * at::cross_entropy_loss(own, problem.targets) + share * temperature * temperature * divergence;
  });
}

void expect_near(const at::Tensor& got, const at::Tensor& wanted, double tolerance) {
  ASSERT_EQ(got.defined(), wanted.defined());
  if (!got.defined()) return;
  EXPECT_LE((got.to(at::kDouble) - wanted).abs().max().item<double>(), tolerance * wanted.abs().max().item<double>());
}

TEST(DistillationLoss, IsItsFormula) {
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-10}, {at::kFloat, 2e-5}})
    for (const auto& [tokens, vocabulary] : {std::pair{1, 2}, {37, 11}, {5, 70'000}})
      for (const double share : {0.3, 1.0})
        for (const double temperature : {1.0, 2.5})
          for (const bool biased : {false, true}) {
            SCOPED_TRACE(testing::Message() << type << " " << tokens << " tokens of " << vocabulary << ", share "
                                            << share << ", temperature " << temperature << ", bias " << biased);
            const Problem problem(tokens, vocabulary, biased, type);
            const Result wanted = expected(problem, share, temperature);
            // One block, and blocks of a few rows.
            for (const std::int64_t bytes : {head_logits_bytes, 2 * 3 * 4 * std::int64_t{vocabulary}}) {
              const Result got = gradients_of(
                  problem, type, [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
                    return distilled_head_loss(x, weight, bias, problem.targets, problem.teacher, share, temperature,
                                               bytes);
                  });
              EXPECT_NEAR(got.loss.item<double>(), wanted.loss.item<double>(),
                          tolerance * (1 + std::abs(wanted.loss.item<double>())));
              expect_near(got.of_x, wanted.of_x, tolerance);
              expect_near(got.of_weight, wanted.of_weight, tolerance);
              expect_near(got.of_bias, wanted.of_bias, tolerance);
            }
          }
}

TEST(DistillationLoss, OfItsOwnTeacherIsTheShareOfTheCrossEntropy) {
  Problem problem(20, 7, true, at::kFloat);
  problem.teacher = {problem.x, problem.weight, problem.bias};
  const double alone = head_loss(problem.x, problem.weight, problem.bias, problem.targets).item<double>();
  const at::Tensor leaf = problem.x.clone().requires_grad_(true);
  const at::Tensor all_of_it =
      distilled_head_loss(leaf, problem.weight, problem.bias, problem.targets, problem.teacher, 1, 3);
  EXPECT_NEAR(all_of_it.item<double>(), 0, 1e-6);
  all_of_it.backward();
  EXPECT_LE(leaf.grad().abs().max().item<double>(), 1e-6);
  EXPECT_NEAR(distilled_head_loss(problem.x, problem.weight, problem.bias, problem.targets, problem.teacher, 0.25, 1)
                  .item<double>(),
              0.75 * alone, 1e-6);
}

TEST(DistillationLoss, RefusesATeacherOfOtherWords) {
  Problem problem(4, 5, false, at::kFloat);
  problem.teacher.weight = at::zeros({6, 10});
  EXPECT_EQ(
      error_of([&] { distilled_head_loss(problem.x, problem.weight, {}, problem.targets, problem.teacher, 0.5, 1); }),
      "distilled_head_loss: teacher: expected as many rows and words as the model, got [4, 10] and [6, 10]");
}

}  // namespace
}  // namespace cogwheel::nn::distillation_loss_test
