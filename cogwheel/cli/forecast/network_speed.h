// How fast ranks exchange: `bench network`, and what forecasts of layouts take where no file says it.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/runs/forecast/machine.h"

namespace cogwheel::cli {

struct NetworkSpeed {
  struct Sum {
    std::int64_t bytes;
    double seconds;  // the least of several, each the slowest rank's
  };

  std::int64_t ranks = 1, nodes = 1, threads = 1;  // threads of a rank
  std::vector<Sum> sums = {};                      // smallest first
  double work_seconds = 0;                         // of a rank's processors, in the largest sum
  // Seconds of exchanges of a KiB where ranks compute before each. 0: not measured.
  struct AfterComputation {
    double gather = 0, all_to_all = 0;
  } after_computation = {};

  std::int64_t ranks_per_node() const { return (ranks + nodes - 1) / nodes; }
  // Latency from the smallest sum, bandwidth from what the largest takes longer, work from what it takes of processors;
  // the wake-up and spacing from exchanges after computations.
  runs::Machine machine() const;

  std::string json() const;
};

// Its numbers, null where not known.
nlohmann::ordered_json link_json(const runs::Link& link);

// Collective: of each number the largest of any rank's. `what` is for LostRanks.
std::vector<double> largest_of_ranks(const distributed::Ranks& ranks, const std::vector<double>& own,
                                     const std::string& what);

// Of the ranks that run on one system, this one's.
struct RanksOfNode {
  std::int64_t place = 0;  // how many of them have lower numbers
  std::int64_t count = 1;
  std::int64_t nodes = 1;  // of all ranks
};

// Collective. Ranks of one node are those that a running system has in common.
RanksOfNode ranks_of_this_node(const distributed::Ranks& ranks);

// Collective. Sums of gradients, distributed::Ranks::add, of 1 KiB to 64 MiB, each for about so many seconds and at
// least three times; then exchanges of 1 KiB, as layers have them, after computations of two milliseconds.
NetworkSpeed measure_network(const distributed::Ranks& ranks, double seconds);

}  // namespace cogwheel::cli
