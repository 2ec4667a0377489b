// A process that makes items of the work of a comparison, beside others.
#pragma once
#include <cstdint>

#include "cogwheel/compare/run_maker.h"
#include "cogwheel/compare/work_queue.h"

namespace cogwheel::compare {

// Makes one item after the other that nobody else makes, until all have a result, the queue is closed, or the flag of
// the maker's hooks is set. Waits for what other workers make, which may die. Returns how many items it made.
// `comparison`: as its results.json has it.
std::int64_t work_on(const WorkQueue& queue, Comparison comparison, RunMaker& maker);

}  // namespace cogwheel::compare
