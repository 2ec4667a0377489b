#include "cogwheel/core/process/fiber.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace cogwheel {
namespace {

TEST(Fiber, TakesTurns) {
  std::vector<int> order;
  Fiber first, second;
  const auto body = [&order](Fiber& own, int number) {
    return [&order, &own, number] {
      for (int turn = 0; turn < 3; ++turn) {
        order.push_back(10 * number + turn);
        own.pause();
      }
    };
  };
  first.start(body(first, 1));
  second.start(body(second, 2));
  while (!first.ended() || !second.ended())
    for (Fiber* each : {&second, &first})
      if (!each->ended()) each->resume();
  EXPECT_EQ(order, (std::vector<int>{10, 20, 21, 11, 22, 12}));
}

// What a body throws reaches who resumed it, after its own objects are gone, and the stack serves the next body.
TEST(Fiber, PassesOnWhatIsThrown) {
  Fiber fiber;
  const auto held = std::make_shared<int>(1);
  fiber.start([&fiber, kept = held] {
    const auto local = kept;
    fiber.pause();
    throw std::runtime_error("in the fiber");
  });
  EXPECT_FALSE(fiber.ended());
  EXPECT_EQ(held.use_count(), 3);
  EXPECT_THROW(fiber.resume(), std::runtime_error);
  EXPECT_TRUE(fiber.ended());
  EXPECT_EQ(held.use_count(), 1);
  int depth = 0;
  fiber.start([&] { depth = 7; });
  EXPECT_EQ(depth, 7);
}

}  // namespace
}  // namespace cogwheel
