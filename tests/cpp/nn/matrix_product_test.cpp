// The product against the same in float64, in value and in both derivatives.
#include "cogwheel/nn/weights/matrix_product.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <utility>
#include <vector>

#include "cogwheel/ops/layers/row_order.h"

namespace cogwheel::nn {
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

// Blocks that are cut off, columns that are further apart than they are long, copies that are streamed past the caches.
TEST(MatrixProduct, ReadsTransposedMatricesInRowOrder) {
  for (const auto& [rows, width] : {std::pair{1, 5}, {7, 64}, {65, 130}, {64, 64}, {1001, 1100}, {130, 8195}}) {
    const at::Tensor longer = torch::randn({width, rows + 3});
    const std::vector<at::Tensor> sources{torch::randn({width, rows}), longer.narrow(1, 2, rows),
                                          longer.narrow(1, 0, rows)};
    for (const at::Tensor& source : sources) {
      const at::Tensor copy = ops::in_row_order(source.t());
      EXPECT_TRUE(copy.is_contiguous());
      EXPECT_TRUE(at::equal(copy, source.t())) << rows << " " << width;
    }
  }
  const at::Tensor in_order = torch::randn({3, 4}), every_second = torch::randn({6, 8}).slice(1, 0, 8, 2);
  EXPECT_TRUE(ops::in_row_order(in_order).is_same(in_order));
  EXPECT_TRUE(at::equal(ops::in_row_order(every_second.t()), every_second.t()));
}

TEST(MatrixProduct, TakesAnyLeadingShape) {
  const at::Tensor weight = torch::randn({4, 16});
  EXPECT_EQ(matrix_product(torch::randn({16}).unsqueeze(0), weight).sizes(), at::IntArrayRef({1, 4}));
  EXPECT_EQ(matrix_product(torch::randn({2, 3, 5, 16}), weight).sizes(), at::IntArrayRef({2, 3, 5, 4}));
}

at::Tensor rounded(const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kDouble); }

// The error of a product of bfloat16 operands: one rounding of the result, at most 2⁻⁸ relative.
void expect_rounded_product(const at::Tensor& got, const at::Tensor& expected, const char* what) {
  EXPECT_TRUE(at::allclose(got.to(at::kDouble), expected, 0x1p-8, 1e-3)) << what;
  EXPECT_TRUE(got.equal(got.to(at::kBFloat16).to(got.scalar_type()))) << what;
}

TEST(BFloat16Products, RoundOperandsAndResultInBothDirections) {
  for (const bool biased : {false, true}) {
    const Inputs inputs = make_inputs(at::kFloat, biased);
    at::Tensor output;
    {
      const BFloat16Products products;
      output = matrix_product(inputs.x, inputs.weight, inputs.bias);
    }
    ASSERT_EQ(output.scalar_type(), at::kBFloat16);
    const at::Tensor upstream = torch::randn(output.sizes()).to(at::kBFloat16);
    output.backward(upstream);  // outside the guard: the backward pass rounds as the forward pass did
    const at::Tensor x = rounded(inputs.x.detach()).flatten(0, 1), weight = rounded(inputs.weight.detach()),
                     gradient = rounded(upstream).flatten(0, 1);
    at::Tensor expected = x.matmul(weight.t());
    if (biased) expected = expected + rounded(inputs.bias.detach());
    expect_rounded_product(output.detach().flatten(0, 1), expected, "output");
    expect_rounded_product(inputs.x.grad().flatten(0, 1), gradient.matmul(weight), "gradient of x");
    EXPECT_EQ(inputs.weight.grad().scalar_type(), at::kFloat);
    expect_rounded_product(inputs.weight.grad(), gradient.t().matmul(x), "gradient of the weight");
    if (biased) expect_rounded_product(inputs.bias.grad(), gradient.sum(0), "gradient of the bias");
  }
}

TEST(BFloat16Products, EndWithTheirGuardAndLeaveDoublesAlone) {
  const Inputs single = make_inputs(at::kFloat, false), doubles = make_inputs(at::kDouble, false);
  const at::Tensor before = matrix_product(single.x, single.weight), exact = matrix_product(doubles.x, doubles.weight);
  {
    const BFloat16Products products;
    EXPECT_EQ(matrix_product(single.x, single.weight).scalar_type(), at::kBFloat16);
    EXPECT_TRUE(matrix_product(doubles.x, doubles.weight).equal(exact));
    const BFloat16Products none(false);
    EXPECT_TRUE(matrix_product(single.x, single.weight).equal(before));
  }
  EXPECT_TRUE(matrix_product(single.x, single.weight).equal(before));
}

}  // namespace
}  // namespace cogwheel::nn
