// `train --dry-run --ranks N`: what each way to share a step over so many ranks would cost.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/forecast/machine.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::cli {

struct LayoutRequest {
  std::int64_t ranks = 1;
  runs::Machine machine = {};     // what of it is not said is measured, by `here`
  std::string machine_file = {};  // for messages
  const distributed::Ranks& here = distributed::one_rank;
  bool json = false;
};

// Of this machine, to measure together what the description lacks; nothing where it lacks nothing, or for one rank.
// `of_node`: how many share the cores of a node, as far as that is said. Throws UsageError for a description that does
// not serve.
struct RanksToStart {
  std::int64_t count = 1, of_node = 1;
};
std::optional<RanksToStart> ranks_to_start(const LayoutRequest& request);

// Collective of `here`. Of a completed configuration, whose data each rank has. The first rank prints on stdout. Throws
// UsageError where no layout of so many ranks is possible.
void forecast_layouts(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                      const LayoutRequest& request);

// "3 h 20 min", and days from two on.
std::string days_text(double seconds);

}  // namespace cogwheel::cli
