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

// What is held at the largest moment of a step, in bytes.
struct StepBytes {
  std::int64_t weights = 0, moments = 0, average = 0;
  std::int64_t gradients = 0;                // of all buffers
  std::int64_t activations = 0, logits = 0;  // of a slice
  // What operators need within themselves, and what the allocator keeps.
  std::int64_t libraries() const;
};

// Of a parameter that ranks which share heads divide, wherever their number divides this one.
struct DividedBytes {
  std::int64_t bytes = 0, divisor = 1;
};

// Parts of the largest moment of a step; what the program itself takes (libraries, data) is not among them.
struct StepMemory {
  StepBytes held = {};
  std::int64_t learned = 0;  // bytes of one gradient of all that learns
  std::vector<DividedBytes> divided = {};
  std::vector<MemoryPart> parts = {};
  std::string unknown = {};    // why what a slice needs is not known: an operator that has no shapes without numbers
  std::int64_t bytes() const;  // of the parts: more, where something is not known
  bool is_known() const { return unknown.empty(); }
};

// How many sums of gradients are held while so many slices are made (training/gradient_sum.h).
std::int64_t gradient_buffers(std::int64_t slices);

// Options with which a step is one slice of theirs.
TrainingOptions one_slice(TrainingOptions training);

// Of a completed configuration.
StepMemory step_memory(const RunConfig& config, const Task& task);

// Throws Error (what a step takes, what there is) where this machine's memory cannot hold one of a completed
// configuration: the system would grant it, and kill a process when it is used. Of another device nothing is known.
void expect_memory_for_step(const RunConfig& config, const Task& task);

}  // namespace cogwheel::runs
