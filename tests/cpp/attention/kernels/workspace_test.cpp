#include "cogwheel/attention/kernels/cpu/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cogwheel {
namespace {

TEST(Workspace, KeepsItsBlockWhileItSuffices) {
  void* block = thread_workspace(Scratch::task, 100'000);
  EXPECT_EQ(thread_workspace(Scratch::task, 50'000), block);
  EXPECT_EQ(thread_workspace(Scratch::task, 100'000), block);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
}

TEST(Workspace, PurposesDoNotShare) {
  EXPECT_NE(thread_workspace(Scratch::task, 1000), thread_workspace(Scratch::call, 1000));
}

TEST(WorkspaceLayout, MeasuresWhatItHandsOut) {
  const auto layOut = [](WorkspaceLayout& layout) {
    float* first = layout.take<float>(3);
    double* second = layout.take<double>(5);
    return std::pair(reinterpret_cast<std::byte*>(first), reinterpret_cast<std::byte*>(second));
  };
  WorkspaceLayout measured;
  layOut(measured);
  alignas(64) std::byte memory[256];
  WorkspaceLayout layout(memory);
  const auto [first, second] = layOut(layout);
  EXPECT_EQ(measured.bytes(), layout.bytes());
  EXPECT_EQ(first, memory);
  EXPECT_EQ(second, memory + 64);
}

}  // namespace
}  // namespace cogwheel
