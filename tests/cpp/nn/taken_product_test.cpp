// What a run says that goes on where another process stopped, and the widened product of layers.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/ops/layers/matrix_product_library.h"

namespace cogwheel::nn {
namespace {

TEST(TakenProduct, IsSilentWhereItIsAboutAsFast) {
  const ProductRate rates[] = {{"pairs", 100e9}, {"widened", 70e9}};
  EXPECT_EQ(ops::note_of_product("attention", "pairs", rates, "pairs"), "");
  EXPECT_EQ(ops::note_of_product("attention", "widened", rates, "pairs"), "");
}

TEST(TakenProduct, SaysWhereAnotherIsFarFaster) {
  const ProductRate rates[] = {{"widened", 60e9}, {"pairs", 24e9}};
  EXPECT_EQ(
      ops::note_of_product("attention", "pairs", rates, "pairs"),
      "attention multiplied bfloat16 by pairs, and goes on so for the sake of its bits: here it is 2.5 times slower "
      "than widened (COGWHEEL_PRODUCT decides otherwise)");
}

TEST(TakenProduct, SaysWhereItIsMissing) {
  const ProductRate rates[] = {{"widened", 60e9}};
  EXPECT_EQ(ops::note_of_product("attention", "amx", rates, "widened"),
            "attention multiplied bfloat16 by amx, which this process lacks: it goes on by widened, and the bits may "
            "differ from here on");
}

TEST(LayerProducts, AgreeButForOneRounding) {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({37, 48}).to(at::kBFloat16), weight = torch::randn({21, 48}).to(at::kBFloat16),
                   bias = torch::randn({21}).to(at::kBFloat16);
  const at::Tensor truth = x.to(at::kDouble).matmul(weight.to(at::kDouble).t()) + bias.to(at::kDouble);
  const at::Tensor got = ops::widened_product(x, weight, bias);
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(got.to(at::kDouble), truth, 0x1p-8, 1e-6));
}

TEST(LayerProducts, BothHaveARate) {
  const auto rates = ops::measure_layer_products();
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_NE(rates[0].product, rates[1].product);
  for (const ProductRate& rate : rates) EXPECT_GT(rate.flops, 0) << rate.product;
}

TEST(LayerProducts, KeepTheNumberOfThreads) {
  const int threads = torch::get_num_threads();
  ops::measure_layer_products();
  EXPECT_EQ(torch::get_num_threads(), threads);
}

}  // namespace
}  // namespace cogwheel::nn
