#include "cogwheel/cli/workers.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <vector>

namespace cogwheel::cli {
namespace {

TEST(Workers, AreAsManyAsThreadsWhereTheyAreATenthFaster) {
  const ThreadCount four(4);
  ASSERT_EQ(at::get_num_threads(), 4);
  const auto chosen = [](std::int64_t items, double together) {
    return choose_workers(items, [&](std::int64_t workers, std::int64_t threads) {
      EXPECT_EQ(workers * threads <= 4, true);
      return workers == 1 ? 100.0 : together;
    });
  };
  EXPECT_EQ(chosen(15, 111).count, 4);
  EXPECT_EQ(chosen(15, 109).count, 1);
  EXPECT_EQ(chosen(2, 150).count, 2);
  EXPECT_EQ(chosen(2, 150).used_threads(), 2);
  EXPECT_EQ(chosen(1, 150).count, 1);
  EXPECT_EQ((Workers{.count = 3}).used_threads(), 1);
  EXPECT_EQ((Workers{.count = 8}).used_threads(), 1);
  EXPECT_EQ((Workers{.count = 2, .threads = 3}).used_threads(), 3);
}

TEST(Workers, LeaveTheThreadsAsTheyWere) {
  const int before = at::get_num_threads();
  { const ThreadCount one(1); }
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace
}  // namespace cogwheel::cli
