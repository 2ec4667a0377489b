// Batches of strokes and characters, as input tensors of a model.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "cogwheel/tasks/handwriting/stroke_source.h"

namespace cogwheel::tasks::handwriting {

// Padding is 0 everywhere; the lengths say where it begins.
struct StrokeBatch {
  at::Tensor points;             // [sequences, points, 3] float32: dx and dy normalised, and 1 where a stroke ends
  at::Tensor lengths;            // [sequences] int64
  at::Tensor characters;         // [sequences, characters] int64: numbers of the alphabet; no columns without texts
  at::Tensor character_lengths;  // [sequences] int64
};

// Throws Error that names a character outside the alphabet.
StrokeBatch stroke_batch(std::span<const StrokeSequence> sequences, const OffsetScale& scale,
                         const text::CharacterTokenizer* alphabet);

// Batches of a training run. They depend only on the data, the seed and the step, so that a resumed run needs no state:
// each `group` batches share their sequences out by length, so that little is padding, and come in an order of their
// own. Steps of a group in a row are cheap, as its sequences are kept. Not for several threads at once.
class StrokeBatches {
 public:
  StrokeBatches(std::shared_ptr<const StrokeSource> source, std::uint64_t seed, std::int64_t batch,
                std::int64_t group = 16);
  StrokeBatch at_step(std::int64_t step);

 private:
  std::shared_ptr<const StrokeSource> source_;
  std::uint64_t seed_;
  std::int64_t batch_, group_, held_ = -1;  // `held_`: which group's sequences, by length
  std::vector<StrokeSequence> sequences_;
};

// What is held out, batch by batch, shorter ones first; a batch has at most that many sequences.
std::vector<StrokeBatch> held_out_batches(const StrokeSource& source, std::int64_t batch);

}  // namespace cogwheel::tasks::handwriting
