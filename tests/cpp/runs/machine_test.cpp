// The file that says what a machine does.
#include "cogwheel/runs/forecast/machine.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::runs::machine_test {
namespace {

std::string problem_of(const std::string& toml) {
  try {
    static_cast<void>(parse_machine(toml, "file"));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Machine, IsReadFromTheExample) {
  const std::string path = COGWHEEL_EXPERIMENTS "/machines/a800.toml";
  const Machine machine = parse_machine(read_file(path), path);
  EXPECT_EQ(machine.devices_per_node, 8);
  EXPECT_EQ(machine.device->flops_per_second, 312e12);
  EXPECT_EQ(machine.device->memory, 80e9);
  EXPECT_EQ(machine.within_node->bandwidth, 200e9);
  EXPECT_EQ(machine.between_nodes->bandwidth, 25e9);
}

TEST(Machine, NetworkIsReadAsItIsWritten) {
  const Machine written{
      .devices_per_node = 2,
      .within_node = Link{.latency = 1.5e-5, .bandwidth = 3.25e9, .work = 2e-9, .wake_up = 3e-4, .spacing = 2e-5},
      .between_nodes = Link{0.001, 125e6}};
  const Machine read = parse_machine(network_toml(written), "file");
  EXPECT_EQ(read.devices_per_node, 2);
  EXPECT_EQ(read.within_node->latency, 1.5e-5);
  EXPECT_EQ(read.within_node->bandwidth, 3.25e9);
  EXPECT_EQ(read.within_node->work, 2e-9);
  EXPECT_EQ(read.within_node->wake_up, 3e-4);
  EXPECT_EQ(read.within_node->spacing, 2e-5);
  EXPECT_EQ(read.between_nodes->latency, 0.001);
  EXPECT_FALSE(read.between_nodes->wake_up);
  EXPECT_FALSE(read.between_nodes->spacing);
  EXPECT_EQ(read.between_nodes->bandwidth, 125e6);
  EXPECT_FALSE(read.device);
}

TEST(Machine, RefusesInOneLine) {
  EXPECT_EQ(problem_of("device_per_node = 8"),
            "file: key: expected devices_per_node (the nearest of 4 names), got device_per_node");
  EXPECT_EQ(problem_of("devices_per_node = 0"), "file: devices_per_node: expected at least 1, got 0");
  EXPECT_EQ(problem_of("[network.within_node]\nlatency = 1e-5\nbandwith = 1e9"),
            "file: network: within_node: bandwidth: expected a number from 1000 to 1e+18, got none");
  EXPECT_EQ(problem_of("[network.within_node]\nlatency = -1\nbandwidth = 1e9"),
            "file: network: within_node: latency: expected at least 0, got -1");
  EXPECT_EQ(problem_of("[network.within_node]\nlatency = 1\nbandwidth = 1e9\nwake_up = -1"),
            "file: network: within_node: wake_up: expected at least 0, got -1");
  EXPECT_EQ(problem_of("[network.within_nodes]\nlatency = 1\nbandwidth = 1e9"),
            "file: network: key: expected within_node (the nearest of 2 names), got within_nodes");
  EXPECT_EQ(problem_of("[device]\nflops_per_second = 1e12\nachieved = 1.5\nmemory = 1e9\nmemory_bandwidth = 1e9"),
            "file: device: achieved: expected at most 1, got 1.5");
  EXPECT_EQ(problem_of("[device]\nflops_per_second = \"many\""),
            "file: device: flops_per_second: expected a number, got a value of type string");
}

TEST(Machine, OneLinkIsThatOfAll) {
  const Link link{1e-5, 1e9};
  EXPECT_EQ(network_of({.within_node = link}, 4, "file").ranks_per_node, 4);
  EXPECT_EQ(network_of({.between_nodes = link}, 4, "file").ranks_per_node, 1);
  EXPECT_EQ(network_of({.devices_per_node = 8, .within_node = link}, 4, "file").ranks_per_node, 4);
  EXPECT_EQ(network_of({}, 1, "file").ranks_per_node, 1);
  EXPECT_THROW(network_of({.within_node = link, .between_nodes = link}, 4, "file"), UsageError);
  EXPECT_THROW(network_of({.devices_per_node = 2, .within_node = link}, 4, "file"), UsageError);
  EXPECT_THROW(network_of({.devices_per_node = 2, .between_nodes = link}, 4, "file"), UsageError);
  EXPECT_THROW(network_of({}, 2, "file"), UsageError);
}

}  // namespace
}  // namespace cogwheel::runs::machine_test
