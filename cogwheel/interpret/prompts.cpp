#include "cogwheel/interpret/prompts.h"

#include <torch/types.h>

#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interpret {

void Prompts::check(std::int64_t vocabulary) const {
  if (!tokens.defined() || tokens.dim() != 2 || tokens.scalar_type() != at::kLong || tokens.numel() == 0)
    throw UsageError(expected_got("prompts: tokens", "int64 [prompts, tokens]",
                                  tokens.defined() ? shape_text(tokens.sizes()) : "none"));
  const auto expect = [&](const char* what, const at::Tensor& values, std::int64_t limit) {
    if (!values.defined() || values.sizes() != at::IntArrayRef({size()}) || values.scalar_type() != at::kLong)
      throw UsageError(expected_got(std::string("prompts: ") + what, "int64 [" + std::to_string(size()) + "]",
                                    values.defined() ? shape_text(values.sizes()) : "none"));
    for (const at::Tensor& extreme : {values.min(), values.max()})
      if (const auto value = extreme.item<std::int64_t>(); value < 0 || value >= limit)
        throw UsageError(
            expected_got(std::string("prompts: ") + what, "0 to " + std::to_string(limit - 1), std::to_string(value)));
  };
  expect("end", end, tokens.size(1));
  expect("answer", answer, vocabulary);
  expect("foil", foil, vocabulary);
}

void Prompts::check(std::int64_t vocabulary, const at::Tensor& corrupted) const {
  check(vocabulary);
  if (!corrupted.defined() || corrupted.sizes() != tokens.sizes() || corrupted.scalar_type() != at::kLong)
    throw UsageError(expected_got("prompts: corrupted tokens", "int64 " + shape_text(tokens.sizes()),
                                  corrupted.defined() ? shape_text(corrupted.sizes()) : "none"));
}

at::Tensor at_end(const at::Tensor& values, const at::Tensor& end) {
  return values.index({at::arange(end.size(0), end.options()), end});
}

at::Tensor logit_difference(const at::Tensor& logits, const Prompts& prompts) {
  const at::Tensor last = at_end(logits, prompts.end);
  const auto of = [&](const at::Tensor& tokens) {
    return last.gather(1, tokens.to(last.device()).unsqueeze(1)).squeeze(1);
  };
  return of(prompts.answer) - of(prompts.foil);
}

}  // namespace cogwheel::interpret
