#include "cogwheel/ops/support/sum_in_order.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cogwheel::ops {
namespace {

// What devices other than the CPU compute, here on the CPU.
TEST(SumInOrder, OperatorsGiveTheSameSums) {
  const at::Tensor full = at::randn({3, 4, 5, 6}, at::kFloat);
  const std::vector<std::vector<std::int64_t>> every{{3, 2, 5, 6}, {3, 1, 5, 1}, {2, 1, 6}, {5, 6},
                                                     {1, 1, 1, 6}, {6},          {1}};
  for (const auto& sizes : every) {
    const at::Tensor expected = sum_in_order(full, 2, sizes), found = sum_by_operators(full, 2, sizes);
    EXPECT_EQ(found.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(found, expected, 1e-6, 1e-6)) << found.sizes();
  }
  EXPECT_TRUE(sum_by_operators(full, 1, full.sizes()).equal(full));
}

}  // namespace
}  // namespace cogwheel::ops
