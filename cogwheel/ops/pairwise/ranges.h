// Tables of the keys that each query sees, where no rule defines them: packed sequences and windows around a position.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace cogwheel::ops {

// Positions up to here add without overflow, and are exact in float64.
inline constexpr std::int64_t farthest_position = std::int64_t{1} << 53;

// Dispatches cogwheel::packed_ranges: sequences that lie one after another in `length` rows see only themselves.
// cu_seqlens [sequences + 1], int32 or int64, from 0 to `length`, not decreasing; window 0: all of a sequence.
// → [1, 1, length, 2] int64, keys [begin, end). Throws ValueError for other values of cu_seqlens.
at::Tensor packed_ranges(const at::Tensor& cu_seqlens, c10::SymInt length, bool causal, std::int64_t window);

// Dispatches cogwheel::local_ranges: keys [center − radius, center + radius] of `keys`, cut at the length of the batch
// entry, and at the diagonal where causal: query i sees keys j ≤ i + diagonal, or of batch entry b, where given,
// j ≤ i + first_positions[b].
// centers [b, h, N] of any floating-point type → [b or B, h, N, 2] int64. A center of NaN sees nothing.
// Luong, Pham, Manning, "Effective Approaches to Attention-based Neural Machine Translation" (2015), section 3.2.
at::Tensor local_ranges(const at::Tensor& centers, c10::SymInt keys, double radius, bool causal, c10::SymInt diagonal,
                        const std::optional<at::Tensor>& key_lengths,
                        const std::optional<at::Tensor>& first_positions = {});

}  // namespace cogwheel::ops
