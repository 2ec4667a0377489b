// The input of one training step.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::nn {
class SharedHeads;
class SharedTexts;
}  // namespace cogwheel::nn

namespace cogwheel::runs {

// Tensors have a row for each of the batch, those that there are.
struct Batch {
  at::Tensor inputs, targets;  // as the loss of the task takes them
  std::int64_t tokens = 0;     // the number of the task's items (TaskDescription::item), for counts and speeds
  at::Tensor lengths = {};     // [B] int64, of inputs that are padded
  // What each of them goes with: a source sentence, characters to write, classes or vectors.
  at::Tensor source = {}, source_lengths = {};
  at::Tensor segments = {};  // [B, N], of sentences: 0 for the first, 1 for the second
  at::Tensor times = {};     // [B], of images with noise: when they have it
  // [B, N] int64, of rows that hold several documents, each of which sees only itself: the place of each token in its
  // own, 0 for the first.
  at::Tensor positions = {};
  // Ranks that share its texts, and ranks that share its heads and hidden units (ForwardContext); null: none. The loss
  // then is this rank's part of it (Task::expect_shared).
  const nn::SharedTexts* texts = nullptr;
  const nn::SharedHeads* heads = nullptr;
};

// The rows of a slice, one of so many about equal ones; `tokens` stays that of the batch.
Batch slice_of(const Batch& batch, std::int64_t index, std::int64_t slices);

// The same batch in pinned host memory, which CUDA copies from while the host goes on.
Batch pinned(Batch batch);

// How many targets are not `ignored_target`.
std::int64_t told_targets(const Batch& batch);

}  // namespace cogwheel::runs
