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
std::int64_t bytes_of_parts(const std::vector<MemoryPart>& parts);

// The most that is alive of a slice while its backward pass has made so many bytes of gradients, those not among it.
struct PassMoment {
  std::int64_t made = 0;
  std::int64_t activations = 0, logits = 0;
  std::int64_t unfinished = 0;  // of gradients: those of a tied head, say, whose other part comes last
};

// What a step holds, in bytes.
struct StepBytes {
  std::int64_t weights = 0, moments = 0, average = 0;
  std::int64_t learned = 0, largest = 0;  // of one gradient of all that learns; of the largest tensor of it
  std::vector<PassMoment> pass = {};      // of a slice of each phase
  // What operators need within themselves, and what the allocator keeps.
  std::int64_t libraries() const;
};

// How gradients are held.
struct GradientBuffers {
  std::int64_t sums = 0;       // of slices, that wait for the last one
  std::int64_t owners = 1;     // ranks, each of which keeps its stretches alone
  std::int64_t exchanged = 0;  // the most that an exchange holds at a time
};

// What of a step's moments differs at the largest of them.
struct LargestMoment {
  std::int64_t gradients = 0, exchanged = 0, activations = 0, logits = 0;
  std::int64_t changes = 0;  // that a step makes, of which a norm is reported
  std::int64_t bytes() const { return gradients + exchanged + activations + logits + changes; }
};
LargestMoment largest_moment(const StepBytes& bytes, const GradientBuffers& buffers);

// Of such a moment, those that are not 0. `slices`: of a rank; `of_moments`: the reason of that part.
std::vector<MemoryPart> memory_parts(const StepBytes& held, const LargestMoment& largest, std::int64_t slices,
                                     std::string of_moments = {});

// Of a parameter that ranks which share heads divide, wherever their number divides this one.
struct DividedBytes {
  std::int64_t bytes = 0, divisor = 1;
};

// Parts of the largest moment of a step; what the program itself takes (libraries, data) is not among them.
struct StepMemory {
  StepBytes held = {};
  std::vector<DividedBytes> divided = {};
  std::vector<MemoryPart> parts = {};
  std::string unknown = {};    // why what a slice needs is not known: an operator that has no shapes without numbers
  std::int64_t bytes() const;  // of the parts: more, where something is not known
  // Of a step of so many slices instead.
  std::int64_t bytes_of(std::int64_t slices) const;
  bool is_known() const { return unknown.empty(); }
};

// How many sums of gradients wait while the last of so many slices is made (training/gradient_sum.h).
std::int64_t sums_that_wait(std::int64_t slices);

// Options with which a step is one slice of theirs.
TrainingOptions one_slice(TrainingOptions training);

// Of a completed configuration.
StepMemory step_memory(const RunConfig& config, const Task& task);

// Throws Error (what a step takes, what there is) where this machine's memory cannot hold one of a completed
// configuration: the system would grant it, and kill a process when it is used. Of another device nothing is known.
void expect_memory_for_step(const RunConfig& config, const Task& task);

}  // namespace cogwheel::runs
