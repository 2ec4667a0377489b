#include "cogwheel/runs/sampler.h"

#include "cogwheel/core/error.h"

namespace cogwheel::runs {

void check(const SamplingOptions& options) {
  expect_within("length", options.length, length_range);
  expect_within("temperature", options.temperature, temperature_range);
  expect_within("repetition-penalty", options.repetition_penalty, repetition_penalty_range);
  expect_within("top-k", options.top_k, top_k_range);
  expect_within("top-p", options.top_p, top_p_range);
  expect_within("min-p", options.min_p, min_p_range);
  expect_within("log-probabilities", options.likeliest, likeliest_range);
  expect_within("sink", options.sink, sink_range);
  for (const std::string& text : options.stop)
    if (text.empty()) throw UsageError(expected_got("stop", "a text", "an empty one"));
}

}  // namespace cogwheel::runs
