// Prompts that have a right and a wrong answer, and by how much a model prefers the right one.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::interpret {

struct Prompts {
  at::Tensor tokens;        // [B, N] int64, shorter prompts filled up with any token
  at::Tensor end;           // [B] int64, the last token of each, after which it is answered
  at::Tensor answer, foil;  // [B] int64

  std::int64_t size() const { return tokens.size(0); }
  // Throws UsageError that names the first part of another shape, or a place or token out of range.
  void check(std::int64_t vocabulary) const;
  // The same, and that `corrupted` are tokens of the shape of these.
  void check(std::int64_t vocabulary, const at::Tensor& corrupted) const;
};

// Row `end` of each prompt: [B, N, …] → [B, …].
at::Tensor at_end(const at::Tensor& values, const at::Tensor& end);

// logits [B, N, V] → [B]: that of the answer minus that of the foil.
at::Tensor logit_difference(const at::Tensor& logits, const Prompts& prompts);

}  // namespace cogwheel::interpret
