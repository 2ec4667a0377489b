// What a network does, from the times of sums over it.
#include "cogwheel/cli/forecast/network_speed.h"

#include <gtest/gtest.h>

#include "cogwheel/runs/forecast/layout_cost.h"

namespace cogwheel::cli::network_speed_test {
namespace {

NetworkSpeed speed_of(std::int64_t ranks, std::int64_t nodes, const runs::Link& link) {
  NetworkSpeed speed{.ranks = ranks, .nodes = nodes, .threads = 1};
  const runs::Network network{
      .ranks_per_node = speed.ranks_per_node(), .within = nodes > 1 ? runs::Link{0, 1e18} : link, .between = link};
  for (const std::int64_t bytes : {std::int64_t{1024}, std::int64_t{1} << 20, std::int64_t{64} << 20})
    speed.sums.push_back({bytes, runs::seconds_of_sum(static_cast<double>(bytes), {.ranks = ranks}, network)});
  return speed;
}

TEST(NetworkSpeed, GivesTheLinksBack) {
  const runs::Machine here = speed_of(4, 1, {2e-4, 5e8}).machine();
  EXPECT_NEAR(here.within_node->latency, 2e-4, 1e-6);  // a KiB takes a little too
  EXPECT_NEAR(here.within_node->bandwidth, 5e8, 5e5);
  EXPECT_FALSE(here.between_nodes);
  EXPECT_EQ(here.devices_per_node, 0);
  const runs::Machine far = speed_of(8, 4, {2e-4, 5e8}).machine();
  EXPECT_NEAR(far.between_nodes->latency, 2e-4, 1e-6);
  EXPECT_NEAR(far.between_nodes->bandwidth, 5e8, 5e5);
  EXPECT_FALSE(far.within_node);
  EXPECT_EQ(far.devices_per_node, 2);
}

TEST(NetworkSpeed, GivesNoMoreThanTwiceTheRateOfTheLargestSum) {
  NetworkSpeed speed = speed_of(4, 1, {2e-4, 5e8});
  const double rate = speed.machine().within_node->bandwidth;
  speed.sums.front().seconds = speed.sums.back().seconds;  // of a machine that was busy with the smallest
  EXPECT_GT(speed.machine().within_node->bandwidth, rate);
  EXPECT_LE(speed.machine().within_node->bandwidth, 2 * rate);
}

TEST(NetworkSpeed, TakesWhatLayersWaitForFromExchangesAfterComputations) {
  NetworkSpeed speed = speed_of(4, 1, {2e-4, 5e8});
  speed.after_computation = {.gather = 3e-3, .all_to_all = 1.4e-3};
  const runs::Link link = *speed.machine().within_node;
  EXPECT_DOUBLE_EQ(*link.wake_up, 1e-3);  // of three messages around the ring
  EXPECT_DOUBLE_EQ(*link.spacing, 2e-4);
  EXPECT_DOUBLE_EQ(link.around_ring(4), 3e-3);
  EXPECT_DOUBLE_EQ(link.all_to_all(4), 1.4e-3);
  // Sums are what they were.
  const NetworkSpeed::Sum& largest = speed.sums.back();
  const runs::Network network{.ranks_per_node = 4, .within = link};
  EXPECT_NEAR(runs::seconds_of_sum(static_cast<double>(largest.bytes), {.ranks = 4}, network), largest.seconds, 1e-6);
  speed.after_computation = {.gather = 3e-5, .all_to_all = 1e-5};  // of a machine that was busier before
  EXPECT_NEAR(*speed.machine().within_node->wake_up, 2e-4, 1e-6);
  EXPECT_EQ(speed.machine().within_node->spacing, 0);
  NetworkSpeed of_two = speed_of(2, 1, {2e-4, 5e8});
  of_two.after_computation = {.gather = 3e-3, .all_to_all = 2e-3};
  EXPECT_FALSE(of_two.machine().within_node->spacing);  // of one message
}

}  // namespace
}  // namespace cogwheel::cli::network_speed_test
