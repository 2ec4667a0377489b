#include "cogwheel/compare/record/machine.h"

#include <gtest/gtest.h>

#include <vector>

namespace cogwheel::compare {
namespace {

TEST(Machine, PeakMemoryFollowsWhatIsTouched) {
  if (!reset_peak_memory()) GTEST_SKIP() << "this system does not let a process reset its peak memory";
  constexpr std::int64_t touched = 64 << 20, min_growth = 60 << 20;
  const std::int64_t before = peak_memory_bytes().value();
  {
    const std::vector<char> block(touched, 1);
    EXPECT_EQ(block.back(), 1);
  }
  EXPECT_GE(peak_memory_bytes().value() - before, min_growth);  // freed, and still the peak
  ASSERT_TRUE(reset_peak_memory());
  EXPECT_LT(peak_memory_bytes().value() - before, min_growth);
}

TEST(Machine, SaysWhatItIs) {
  const Comparison::Machine machine = this_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.threads, 1);
  EXPECT_GT(machine.memory_bytes, 1 << 20);
}

}  // namespace
}  // namespace cogwheel::compare
