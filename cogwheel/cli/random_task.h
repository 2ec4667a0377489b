// Tasks on random numbers, for benchmarks: what is learned does not matter, only its shape.
#pragma once
#include <cstdint>
#include <memory>

#include "cogwheel/configuration/run_config.h"
#include "cogwheel/train/task.h"

namespace cogwheel {

// The shapes that a model's options do not say.
struct RandomItems {
  // Tokens of a target sentence with its end; of a row with hidden words; points of a pen that are predicted.
  std::int64_t length = 1;
  std::int64_t source = 1;  // tokens of a source sentence with its end; characters that are written
};

// The task of a configuration whose model says its vocabulary, and of images their size. All items are as long as each
// other, so that nothing is padding. Throws UsageError for a task that has no random items.
std::shared_ptr<const Task> random_task(const RunConfig& config, const RandomItems& items);

}  // namespace cogwheel
