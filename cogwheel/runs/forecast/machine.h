// What a machine can do, or many alike that a network joins, as a file says it: for forecasts of what is not here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cogwheel::runs {

// What each of two that talk can send and receive at the same time.
struct Link {
  double latency = 0;    // seconds until a message of no length is there, where each follows another
  double bandwidth = 0;  // bytes a second, in each direction
  double work = 0;       // seconds of a rank's processors for each byte that it sends; 0 where others do it
  // The latency of a message that follows a computation, and what each further one that a rank sends in the same
  // exchange adds to it; `latency` and that latency unless given.
  std::optional<double> wake_up = {}, spacing = {};

  // After a computation, until messages from each of so many ranks to all others are there, whatever their lengths add.
  double all_to_all(std::int64_t ranks) const {
    const double first = wake_up.value_or(latency);
    return first + static_cast<double>(ranks - 2) * spacing.value_or(first);
  }
  // Until one has gone around the ring.
  double around_ring(std::int64_t ranks) const { return static_cast<double>(ranks - 1) * wake_up.value_or(latency); }
};

struct Device {
  double flops_per_second = 0;  // multiplications and additions, at most
  double achieved = 0;          // the share of them that the passes of a step reach
  double memory = 0;            // bytes
  double memory_bandwidth = 0;  // bytes a second, read or written
};

struct Machine {
  std::string name = {};
  std::int64_t devices_per_node = 0;  // 0: not said
  std::optional<Device> device = {};
  std::optional<Link> within_node = {};    // of each device
  std::optional<Link> between_nodes = {};  // of each node, whose devices share it
};

// TOML with any of
//
//   name = "8 x A800"
//   devices_per_node = 8
//   [device]
//   flops_per_second = 312e12
//   achieved = 0.4
//   memory = 80e9
//   memory_bandwidth = 2e12
//   [network.within_node]
//   latency = 1e-5
//   bandwidth = 200e9
//   [network.between_nodes]
//   latency = 2e-5
//   bandwidth = 25e9
//
// A table that is there has all its keys, but `work`, `wake_up` and `spacing` of a link. Throws UsageError that names
// `what` and the key.
Machine parse_machine(std::string_view toml, const std::string& what);

// The network and its nodes, as parse_machine reads them.
std::string network_toml(const Machine& machine);

struct Network {
  std::int64_t ranks_per_node = 1;
  Link within = {}, between = {};
};

// That of so many ranks, one a device. One link alone is that of all: on one node, or on nodes of one device each,
// unless devices_per_node says otherwise. Throws UsageError that names `what` where a link is missing.
Network network_of(const Machine& machine, std::int64_t ranks, const std::string& what);

}  // namespace cogwheel::runs
