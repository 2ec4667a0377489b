#include "cogwheel/tasks/handwriting/stroke_batches.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "cogwheel/core/random.h"

namespace cogwheel::tasks::handwriting {
namespace {

void sort_by_length(std::vector<StrokeSequence>& sequences) {
  std::stable_sort(sequences.begin(), sequences.end(),
                   [](const StrokeSequence& a, const StrokeSequence& b) { return a.points.size() < b.points.size(); });
}

}  // namespace

StrokeBatch stroke_batch(std::span<const StrokeSequence> sequences, const OffsetScale& scale,
                         const text::CharacterTokenizer* alphabet) {
  const auto count = static_cast<std::int64_t>(sequences.size());
  std::vector<std::vector<Token>> texts;
  std::int64_t points = 0, characters = 0;
  for (const StrokeSequence& sequence : sequences) {
    texts.push_back(alphabet == nullptr ? std::vector<Token>() : alphabet->encode(sequence.text, "text of strokes"));
    points = std::max(points, static_cast<std::int64_t>(sequence.points.size()));
    characters = std::max(characters, static_cast<std::int64_t>(texts.back().size()));
  }
  const StrokeBatch batch{at::zeros({count, points, 3}, at::kFloat), at::zeros({count}, at::kLong),
                          at::zeros({count, characters}, at::kLong), at::zeros({count}, at::kLong)};
  float* const all_points = batch.points.mutable_data_ptr<float>();
  auto* const lengths = batch.lengths.mutable_data_ptr<std::int64_t>();
  auto* const all_characters = batch.characters.mutable_data_ptr<std::int64_t>();
  auto* const character_lengths = batch.character_lengths.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < count; ++row) {
    const StrokeSequence& sequence = sequences[static_cast<std::size_t>(row)];
    const std::vector<Token>& text = texts[static_cast<std::size_t>(row)];
    float* point = all_points + row * points * 3;
    for (const StrokePoint& each : sequence.points) {
      const StrokePoint normalized = scale.normalized(each);
      *point++ = normalized.dx;
      *point++ = normalized.dy;
      *point++ = normalized.ends ? 1.0F : 0.0F;
    }
    lengths[row] = static_cast<std::int64_t>(sequence.points.size());
    std::copy(text.begin(), text.end(), all_characters + row * characters);
    character_lengths[row] = static_cast<std::int64_t>(text.size());
  }
  return batch;
}

StrokeBatches::StrokeBatches(std::shared_ptr<const StrokeSource> source, std::uint64_t seed, std::int64_t batch,
                             std::int64_t group)
    : source_(std::move(source)), seed_(seed), batch_(batch), group_(group) {}

StrokeBatch StrokeBatches::at_step(std::int64_t step) {
  const std::int64_t group = step / group_;
  if (group != held_) {
    sequences_.clear();
    for (std::int64_t place = group * group_ * batch_; place < (group + 1) * group_ * batch_; ++place)
      sequences_.push_back(source_->training_sequence(seed_, static_cast<std::uint64_t>(place)));
    sort_by_length(sequences_);
    held_ = group;
  }
  const KeyedOrder order(static_cast<std::uint64_t>(group_), seed_, static_cast<std::uint64_t>(group));
  const std::uint64_t which = order.at(static_cast<std::uint64_t>(step % group_)) * static_cast<std::uint64_t>(batch_);
  return stroke_batch(std::span(sequences_).subspan(which, static_cast<std::size_t>(batch_)), source_->scale(),
                      source_->alphabet().get());
}

std::vector<StrokeBatch> held_out_batches(const StrokeSource& source, std::int64_t batch) {
  std::vector<StrokeSequence> sequences(source.held_out().begin(), source.held_out().end());
  sort_by_length(sequences);
  std::vector<StrokeBatch> batches;
  const auto size = static_cast<std::size_t>(batch);
  for (std::size_t first = 0; first < sequences.size(); first += size)
    batches.push_back(stroke_batch(std::span(sequences).subspan(first, std::min(size, sequences.size() - first)),
                                   source.scale(), source.alphabet().get()));
  return batches;
}

}  // namespace cogwheel::tasks::handwriting
