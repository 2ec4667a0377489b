// `train --dry-run --ranks N`: what each way to share a step over so many ranks would cost.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cogwheel/cli/forecast/network_speed.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/forecast/machine.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::cli {

struct LayoutRequest {
  std::int64_t ranks = 1;
  runs::Machine machine = {};     // what of it is not said is measured here
  std::string machine_file = {};  // for messages
  // Of so many ranks on this machine: how fast they exchange, and how many threads each has.
  std::function<NetworkSpeed(std::int64_t ranks)> network_here = {};
  std::function<std::int64_t(std::int64_t ranks)> threads_here = {};
  std::int64_t data_bytes = 0;  // which each rank has too
  bool json = false;
};

// Of a completed configuration. Prints on stdout. Throws UsageError where no layout of so many ranks is possible.
void forecast_layouts(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                      const LayoutRequest& request);

// "3 h 20 min", and days from two on.
std::string days_text(double seconds);

}  // namespace cogwheel::cli
