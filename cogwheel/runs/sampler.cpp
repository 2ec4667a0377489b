#include "cogwheel/runs/sampler.h"

namespace cogwheel::runs {

void check(const SamplingOptions& options) {
  expect_within("length", options.length, length_range);
  expect_within("temperature", options.temperature, temperature_range);
  expect_within("top-k", options.top_k, top_k_range);
}

}  // namespace cogwheel::runs
