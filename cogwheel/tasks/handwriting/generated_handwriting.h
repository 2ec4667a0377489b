// Handwriting that a model draws: for pages, for `cogwheel sample`, and to be read back.
#pragma once
#include <cstdint>
#include <string>

#include "cogwheel/runs/inspection.h"
#include "cogwheel/runs/sampler.h"
#include "cogwheel/tasks/handwriting/pen_sampling.h"
#include "cogwheel/tasks/handwriting/stroke_source.h"

namespace cogwheel::tasks::handwriting {

// strokes.json of a run: the scale of its offsets, without which its samples mean nothing.
std::string pen_record(const StrokeSource& source);

// A number of the inspection below: the share of characters that are read as what they are, in [0, 1].
inline constexpr const char* share_read = "characters_read";

// So many words drawn at bias 1, each read back by the built-in font, beside what the font itself is read as; samples
// and the window over time. `words` unseen in training, the same for every model with the same seed.
runs::Inspection show_handwriting(Handwriting& model, const StrokeSource& source, std::uint64_t seed,
                                  std::int64_t words);

// Writes the prompt as SVG to `out`, animated, and says so; says where a stop rule was not met.
void sample_handwriting(const runs::RunFolder& folder, const runs::SampleRequest& request,
                        const runs::SampleWriter& write);

}  // namespace cogwheel::tasks::handwriting
