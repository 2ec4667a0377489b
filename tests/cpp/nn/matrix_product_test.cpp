// The product against the same in float64, in value and in both derivatives.
#include "cogwheel/nn/matrix_product.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

namespace cogwheel {
namespace {

struct Inputs {
  at::Tensor x, weight, bias;
};

Inputs make_inputs(at::ScalarType type, bool biased) {
  torch::manual_seed(5);
  const auto leaf = [&](at::IntArrayRef shape) { return torch::randn(shape).to(type).requires_grad_(); };
  Inputs inputs{leaf({3, 5, 32}), leaf({17, 32}), {}};
  if (biased) inputs.bias = leaf({17});
  return inputs;
}

// The output, its gradients, and the gradients of a function of these.
std::vector<at::Tensor> derivatives(at::ScalarType type, bool biased) {
  const Inputs inputs = make_inputs(type, biased);
  std::vector<at::Tensor> leaves = {inputs.x, inputs.weight};
  if (biased) leaves.push_back(inputs.bias);
  const at::Tensor output = matrix_product(inputs.x, inputs.weight, inputs.bias);
  const auto first = torch::autograd::grad({output.pow(3).sum()}, leaves, {}, true, /*create_graph=*/true);
  const auto second =
      torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, {inputs.x, inputs.weight});
  std::vector<at::Tensor> all = {output};
  all.insert(all.end(), first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

TEST(MatrixProduct, AgreesWithDoubleInBothDerivatives) {
  for (const bool biased : {false, true}) {
    const auto expected = derivatives(at::kDouble, biased), got = derivatives(at::kFloat, biased);
    ASSERT_EQ(expected.size(), got.size());
    for (std::size_t index = 0; index < got.size(); ++index) {
      ASSERT_EQ(got[index].sizes(), expected[index].sizes());
      const double largest = expected[index].abs().max().item<double>();
      EXPECT_LT((got[index] - expected[index]).abs().max().item<double>(), 2e-6 * largest) << index;
    }
  }
}

TEST(MatrixProduct, TakesAnyLeadingShape) {
  const at::Tensor weight = torch::randn({4, 16});
  EXPECT_EQ(matrix_product(torch::randn({16}).unsqueeze(0), weight).sizes(), at::IntArrayRef({1, 4}));
  EXPECT_EQ(matrix_product(torch::randn({2, 3, 5, 16}), weight).sizes(), at::IntArrayRef({2, 3, 5, 4}));
}

}  // namespace
}  // namespace cogwheel
