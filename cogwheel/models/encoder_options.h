// The options of an encoder of text, apart from the module.
#pragma once
#include "cogwheel/models/encoder_layers.h"

namespace cogwheel {

// `vocabulary` counts pieces of words; `context` is the longest sequence, and the rows of the position table.
struct EncoderOptions : EncoderLayerOptions {
  std::int64_t segments = 2;  // sentences that one sequence can hold
  std::int64_t classes = 0;   // what a sequence is told apart into; 0: hidden words are predicted instead

  EncoderOptions() { context = 128; }
  bool operator==(const EncoderOptions&) const = default;
};

// Throws UsageError that names the first invalid option.
void check(const EncoderOptions& options);

}  // namespace cogwheel
