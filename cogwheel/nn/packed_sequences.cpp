#include "cogwheel/nn/packed_sequences.h"

#include <torch/types.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::nn {

at::Tensor places_in_sequences(const at::Tensor& cu_seqlens, std::int64_t batch, std::int64_t tokens,
                               const char* what) {
  const auto refuse = [&](const std::string& got) {
    throw UsageError(expected_got(std::string(what) + ": cu_seqlens",
                                  "numbers in order from 0 to " + std::to_string(tokens) + ", for a batch of one",
                                  got));
  };
  if (cu_seqlens.dim() != 1 || cu_seqlens.numel() < 1 || !at::isIntegralType(cu_seqlens.scalar_type(), false))
    refuse(std::string(at::toString(cu_seqlens.scalar_type())) + " " + shape_text(cu_seqlens.sizes()));
  if (batch != 1) refuse("a batch of " + std::to_string(batch));
  const at::Tensor ends = cu_seqlens.to(at::kCPU, at::kLong).contiguous();
  const auto* const end = ends.const_data_ptr<std::int64_t>();
  if (end[0] != 0 || end[ends.numel() - 1] != tokens)
    refuse(std::to_string(end[0]) + " to " + std::to_string(end[ends.numel() - 1]));
  at::Tensor places = at::empty({tokens}, at::kLong);
  auto* const place = places.mutable_data_ptr<std::int64_t>();
  for (std::int64_t sequence = 0; sequence + 1 < ends.numel(); ++sequence) {
    if (end[sequence + 1] < end[sequence])
      refuse(std::to_string(end[sequence + 1]) + " after " + std::to_string(end[sequence]));
    for (std::int64_t token = end[sequence]; token < end[sequence + 1]; ++token) place[token] = token - end[sequence];
  }
  return places;
}

}  // namespace cogwheel::nn
