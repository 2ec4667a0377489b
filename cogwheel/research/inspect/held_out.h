// What the task of a run holds out, as studies read it.
#pragma once
#include <cstdint>

#include "cogwheel/runs/batch.h"

namespace cogwheel::inspect {

struct StudiedRun;

// Of a text or corpora windows that hold about so many `tokens`, evenly spread; of a task that draws its data,
// sequences on which it is measured. `context`: tokens of a window of text; 0: that of the run. Of a text that holds no
// such window there are no rows. Throws UsageError for a task of another kind, and where several documents share a
// window.
runs::Batch held_out_of(const StudiedRun& run, std::int64_t tokens, std::int64_t context = 0);

}  // namespace cogwheel::inspect
