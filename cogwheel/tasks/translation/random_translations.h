// A beam search over random sentences, to be timed.
#pragma once
#include <cstdint>
#include <functional>

#include "cogwheel/runs/task_entry.h"

namespace cogwheel::tasks::translation {

// Each call translates one batch of random sentences and returns the log probability of the best hypothesis; none ever
// ends, so that every search takes the most steps allowed. Throws what random_translation throws.
std::function<double()> random_translations(const runs::RunConfig& config, const runs::RandomItems& items,
                                            std::int64_t beam);

}  // namespace cogwheel::tasks::translation
