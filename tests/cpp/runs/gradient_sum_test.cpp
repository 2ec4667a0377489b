// The order in which gradients of slices are added.
#include "cogwheel/runs/training/gradient_sum.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace cogwheel::runs::gradient_sum_test {
namespace {

// Adds as a backward pass does.
void differentiate(at::Tensor& parameter, float gradient) { (parameter * gradient).backward(); }

// In float32 the order of these shows.
TEST(GradientSum, IsABinaryTree) {
  const std::vector<float> g{1e8F, 1, -1e8F, 1, 3, 1e-8F, 7e7F, -3};
  for (const std::size_t slices : {1u, 2u, 4u, 8u}) {
    at::Tensor parameter = at::tensor(1.0F).requires_grad_(true);
    GradientSum sum({parameter}, static_cast<std::int64_t>(slices));
    for (std::size_t slice = 0; slice < slices; ++slice) {
      differentiate(parameter, g[slice]);
      sum.take_slice();
    }
    std::vector<float> tree(g.begin(), g.begin() + static_cast<std::ptrdiff_t>(slices));
    for (; tree.size() > 1; tree.resize(tree.size() / 2))
      for (std::size_t pair = 0; pair < tree.size() / 2; ++pair) tree[pair] = tree[2 * pair] + tree[2 * pair + 1];
    EXPECT_EQ(parameter.grad().item<float>(), tree[0]) << slices;
  }
}

// A gradient may be asked for while the last slice still goes backward, in any order.
TEST(GradientSum, IsThereAsSoonAsTheLastGradientIs) {
  const std::vector<float> g{1e8F, 1, -1e8F, 1};
  at::Tensor early = at::tensor(1.0F).requires_grad_(true), late = at::tensor(1.0F).requires_grad_(true);
  GradientSum sum({early, late}, 4);
  for (std::size_t slice = 0; slice < 3; ++slice) {
    EXPECT_FALSE(sum.is_last_slice());
    differentiate(early, g[slice]);
    differentiate(late, g[slice]);
    sum.take_slice();
  }
  EXPECT_TRUE(sum.is_last_slice());
  const float tree = (g[0] + g[1]) + (g[2] + g[3]);
  differentiate(early, g[3]);
  sum.complete(0);
  EXPECT_EQ(early.grad().item<float>(), tree);
  differentiate(late, g[3]);
  sum.take_slice();
  EXPECT_EQ(early.grad().item<float>(), tree);
  EXPECT_EQ(late.grad().item<float>(), tree);
}

TEST(GradientSum, TakesParametersThatASliceDoesNotReach) {
  at::Tensor first = at::tensor(1.0F).requires_grad_(true), second = at::tensor(1.0F).requires_grad_(true);
  GradientSum sum({first, second}, 4);
  for (int slice = 0; slice < 4; ++slice) {
    differentiate(first, 1);
    if (slice == 2) differentiate(second, 5);
    sum.take_slice();
  }
  EXPECT_EQ(first.grad().item<float>(), 4);
  EXPECT_EQ(second.grad().item<float>(), 5);
}

}  // namespace
}  // namespace cogwheel::runs::gradient_sum_test
