#include "cogwheel/compare/record/machine.h"

#include <gtest/gtest.h>

namespace cogwheel::compare {
namespace {

TEST(Machine, SaysWhatItIs) {
  const Comparison::Machine machine = this_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.threads, 1);
  EXPECT_GT(machine.memory_bytes, 1 << 20);
}

}  // namespace
}  // namespace cogwheel::compare
