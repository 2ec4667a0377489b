// What a training step will hold in memory, said before anything is trained: a pass over one slice is made on the
// `meta` device, where tensors have shapes and no bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

struct MemoryPart {
  std::string name, reason;
  std::int64_t bytes = 0;
};

// Parts of the largest moment of a step; what the program itself takes (libraries, data) is not among them.
struct StepMemory {
  std::vector<MemoryPart> parts;
  std::int64_t bytes() const;
};

// How many slices make a step, and how many sums of gradients are held while they are made: the sum over slices is a
// binary tree, whose leaves in pairs share a buffer.
std::int64_t slices_of(const TrainingOptions& training);
std::int64_t gradient_buffers(std::int64_t slices);

// Options that make one slice a step.
TrainingOptions one_slice(TrainingOptions training);

// Of a completed configuration.
StepMemory step_memory(const RunConfig& config, const Task& task);

}  // namespace cogwheel::runs
