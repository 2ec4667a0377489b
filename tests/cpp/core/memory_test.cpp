#include "cogwheel/core/process/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace cogwheel {
namespace {

TEST(Memory, PeakFollowsWhatIsTouched) {
  if (!reset_peak_memory()) GTEST_SKIP() << "this system does not let a process reset its peak memory";
  constexpr std::int64_t touched = 64 << 20, min_growth = 60 << 20;
  const std::int64_t before = peak_memory_bytes().value();
  // Not of an allocator, which may keep what is freed.
  void* const block = ::mmap(nullptr, touched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, touched);
  ASSERT_EQ(::munmap(block, touched), 0);
  EXPECT_GE(peak_memory_bytes().value() - before, min_growth);  // freed, and still the peak
  ASSERT_TRUE(reset_peak_memory());
  EXPECT_LT(peak_memory_bytes().value() - before, min_growth);
}

TEST(Memory, WhatAProcessHoldsIsPartOfWhatThereIs) {
  const std::int64_t all = physical_memory_bytes();
  ASSERT_GT(all, 1 << 20);
  EXPECT_LT(resident_memory_bytes().value(), all);
  EXPECT_LE(available_memory_bytes().value(), all);
}

}  // namespace
}  // namespace cogwheel
