// The options of an encoder of text, apart from the module.
#pragma once
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/tasks/encoders/encoder_layers.h"

namespace cogwheel::tasks::encoders {

// `vocabulary` counts pieces of words; `context` is the longest sequence, and the rows of the position table.
struct EncoderOptions : EncoderLayerOptions {
  std::int64_t segments = 2;  // sentences that one sequence can hold
  std::int64_t classes = 0;   // what a sequence is told apart into; 0: hidden words are predicted instead

  EncoderOptions() { context = 128; }
  bool operator==(const EncoderOptions&) const = default;
};

// Throws UsageError that names the first invalid option.
void check(const EncoderOptions& options);

// What any topology says of itself (runs/configuration/model_options.h).
std::vector<runs::ConfigField> config_fields(EncoderOptions& options);
const runs::ModelEntry& encoder_entry();
inline const runs::ModelEntry& model_entry(const EncoderOptions&) { return encoder_entry(); }

}  // namespace cogwheel::tasks::encoders
