// What counts as a jump of the loss or the gradient.
#include "cogwheel/runs/training/spike_watch.h"

#include <gtest/gtest.h>

#include <limits>

namespace cogwheel::runs::spike_watch_test {
namespace {

// Losses that fall from 3 to 2 and shake by a tenth.
void fill(SpikeWatch& watch) {
  for (int step = 0; step < 100; ++step)
    watch.add(3 - 0.01 * step + (step % 2 == 0 ? 0.1 : -0.1), 1 + 0.01 * (step % 7));
}

TEST(SpikeWatch, TellsJumpsFromNoise) {
  SpikeWatch watch(6);
  EXPECT_FALSE(watch.spike_in(1e6, 1e6));  // nothing to compare with
  fill(watch);
  EXPECT_FALSE(watch.spike_in(3.5, 1));
  EXPECT_FALSE(watch.spike_in(0.1, 0.01));  // below is none
  EXPECT_EQ(watch.spike_in(9, 1).value().substr(0, 12), "loss 9 above");
  EXPECT_EQ(watch.spike_in(2, 50).value().substr(0, 22), "gradient norm 50 above");
  EXPECT_EQ(watch.spike_in(std::numeric_limits<double>::quiet_NaN(), 1).value(), "loss NaN");
  EXPECT_EQ(watch.spike_in(2, std::numeric_limits<double>::infinity()).value(), "gradient norm infinity");
}

// A few outliers among the steps before do not hide the next.
TEST(SpikeWatch, IsRobust) {
  SpikeWatch watch(6);
  fill(watch);
  for (int step = 0; step < 10; ++step) watch.add(50, 100);
  EXPECT_TRUE(watch.spike_in(9, 1));
}

TEST(SpikeWatch, OfNoDeviationsIsBlind) {
  SpikeWatch watch(0);
  fill(watch);
  EXPECT_TRUE(watch.losses().empty());
  EXPECT_FALSE(watch.spike_in(std::numeric_limits<double>::quiet_NaN(), 1));
}

TEST(SpikeWatch, ForgetsAndIsKept) {
  SpikeWatch watch(6), other(6);
  for (int turn = 0; turn < 3; ++turn) fill(watch);
  EXPECT_EQ(watch.losses().size(), SpikeWatch::window);
  other.set({watch.losses().begin(), watch.losses().end()},
            {watch.gradient_norms().begin(), watch.gradient_norms().end()});
  EXPECT_EQ(other.spike_in(2.4, 1.2), watch.spike_in(2.4, 1.2));
  EXPECT_EQ(other.spike_in(4, 1.2), watch.spike_in(4, 1.2));
}

}  // namespace
}  // namespace cogwheel::runs::spike_watch_test
