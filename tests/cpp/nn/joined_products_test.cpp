// Products of rows, alone and together.
#include "cogwheel/nn/weights/joined_products.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>

#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/ops/layers/row_product.h"

namespace cogwheel::nn {
namespace {

// Sizes within and beyond vectors, blocks of outputs and rows, and the least work of a thread.
constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 1}, {7, 5}, {50, 37}, {33, 128}, {1031, 200}};

TEST(RowProduct, AgreesWithDoubleForEachTypeOfWeight) {
  torch::manual_seed(1);
  for (const auto& [outputs, inputs] : sizes) {
    const at::Tensor x = torch::randn({5, inputs}), bias = torch::randn({outputs});
    const at::Tensor narrow = torch::randn({outputs, inputs}).to(at::kBFloat16), scale = torch::rand({outputs});
    const at::Tensor integers = torch::randint(-127, 128, {outputs, inputs}).to(at::kChar);
    const auto expect = [&](const at::Tensor& got, const at::Tensor& weight) {
      const at::Tensor expected = at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
      const double bound = 1e-6 * at::linear(x.abs(), weight.to(at::kFloat).abs(), bias.abs()).max().item<double>();
      EXPECT_LT((got - expected).abs().max().item<double>(), bound) << outputs << " × " << inputs;
    };
    expect(ops::row_product(x, narrow.to(at::kFloat), {}, bias), narrow);
    expect(ops::row_product(x, narrow, {}, bias), narrow);
    expect(ops::row_product(x, integers, scale, bias), integers * scale.unsqueeze(1));
  }
}

TEST(RowProduct, GivesARowTheBitsThatItGetsAlone) {
  torch::manual_seed(2);
  for (const auto& [outputs, inputs] : sizes) {
    const at::Tensor x = torch::randn({11, inputs}), weight = torch::randn({outputs, inputs});
    for (const at::Tensor& stored : {weight, weight.to(at::kBFloat16), (weight * 40).round().to(at::kChar)}) {
      const at::Tensor all = ops::row_product(x, stored, {}, {});
      for (std::int64_t rows = 1; rows <= 11; ++rows)
        for (std::int64_t first = 0; first + rows <= 11; first += rows)
          EXPECT_TRUE(ops::row_product(x.narrow(0, first, rows), stored, {}, {}).equal(all.narrow(0, first, rows)));
    }
  }
}

// Passes that meet at some products and not at others, one of which ends with an exception.
TEST(JoinedProducts, GivesEachPassWhatItGetsAlone) {
  torch::manual_seed(3);
  const at::Tensor first = torch::randn({48, 24}), second = torch::randn({24, 48}), bias = torch::randn({48});
  std::vector<at::Tensor> inputs, results(5), alone(5);
  for (int pass = 0; pass < 5; ++pass) inputs.push_back(torch::randn({1, 1, 24}));
  const auto pass_of = [&](int pass, std::vector<at::Tensor>& into) {
    return [&, pass, into = &into] {
      at::Tensor x = inputs[static_cast<std::size_t>(pass)];
      for (int layer = 0; layer <= pass; ++layer) {
        x = matrix_product(matrix_product(x, first, bias).tanh(), second);
        if (pass == 2 && layer == 1) throw std::runtime_error("one of them");
      }
      (*into)[static_cast<std::size_t>(pass)] = matrix_product(x.expand({1, 3, 24}), first);  // several rows
    };
  };
  std::vector<std::function<void()>> passes;
  for (int pass = 0; pass < 5; ++pass) passes.emplace_back(pass_of(pass, results));
  JoinedProducts products;
  for (int again = 0; again < 2; ++again) {
    const auto thrown = products.run(passes);
    for (int pass = 0; pass < 5; ++pass) {
      const std::vector<std::function<void()>> one = {pass_of(pass, alone)};
      products.run(one);
      const auto index = static_cast<std::size_t>(pass);
      EXPECT_EQ(thrown[index] != nullptr, pass == 2);
      if (pass == 2) continue;
      EXPECT_TRUE(results[index].equal(alone[index])) << pass;
      EXPECT_EQ(results[index].sizes(), at::IntArrayRef({1, 3, 48}));
    }
  }
}

}  // namespace
}  // namespace cogwheel::nn
