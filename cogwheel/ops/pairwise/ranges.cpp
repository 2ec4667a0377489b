#include "cogwheel/ops/pairwise/ranges.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::ops {
namespace {

at::Tensor packed_ranges_cpu(const at::Tensor& cu_seqlens_, c10::SymInt rows, bool causal, std::int64_t window) {
  const std::int64_t length = rows.expect_int();
  const at::Tensor cu_seqlens = cu_seqlens_.to(at::kLong).contiguous();
  const auto* ends = cu_seqlens.const_data_ptr<std::int64_t>();
  const std::int64_t last = cu_seqlens.numel() - 1;
  if (ends[0] != 0) refuse("cu_seqlens", "0 first", std::to_string(ends[0]));
  for (std::int64_t s = 0; s < last; ++s)
    if (ends[s + 1] < ends[s])
      refuse("cu_seqlens", "numbers that do not decrease",
             std::to_string(ends[s + 1]) + " after " + std::to_string(ends[s]));
  if (ends[last] != length)
    refuse("cu_seqlens", std::to_string(length) + " last (as queries)", std::to_string(ends[last]));

  const at::Tensor ranges = at::empty({1, 1, length, 2}, cu_seqlens.options());
  auto* range = ranges.mutable_data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < last; ++s)
    for (std::int64_t i = ends[s]; i < ends[s + 1]; ++i) {
      const std::int64_t end = causal ? i + 1 : ends[s + 1];
      range[2 * i] = window == 0 ? ends[s] : std::max(ends[s], end - window);
      range[2 * i + 1] = end;
    }
  return ranges;
}

at::Tensor packed_ranges_meta(const at::Tensor& cu_seqlens, c10::SymInt length, bool, std::int64_t) {
  return at::empty_symint({1, 1, length, 2}, cu_seqlens.options().dtype(at::kLong));
}

c10::SymInt batch_of(const at::Tensor& centers, const std::optional<at::Tensor>& key_lengths) {
  return key_lengths ? key_lengths->sym_size(0) : centers.sym_size(0);
}

at::Tensor local_ranges_cpu(const at::Tensor& centers_, c10::SymInt key_count, double radius, bool causal,
                            c10::SymInt causal_diagonal, const std::optional<at::Tensor>& key_lengths,
                            const std::optional<at::Tensor>& first_positions) {
  const std::int64_t keys = key_count.expect_int(), diagonal = causal_diagonal.expect_int();
  const std::int64_t heads = centers_.size(1), queries = centers_.size(2);
  const std::int64_t batch = key_lengths ? key_lengths->size(0) : centers_.size(0);
  const at::Tensor centers = centers_.to(at::kDouble).expand({batch, heads, queries}).contiguous();
  const at::Tensor ranges = at::empty({batch, heads, queries, 2}, centers.options().dtype(at::kLong));
  const at::Tensor lengths = key_lengths ? key_lengths->contiguous() : at::Tensor();
  const at::Tensor positions = first_positions ? first_positions->contiguous() : at::Tensor();
  const auto* center = centers.const_data_ptr<double>();
  auto* range = ranges.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < batch * heads * queries; ++row) {
    std::int64_t visible = key_lengths ? lengths.const_data_ptr<std::int64_t>()[row / (heads * queries)] : keys;
    const std::int64_t first = first_positions
                                   ? std::clamp(positions.const_data_ptr<std::int64_t>()[row / (heads * queries)],
                                                -farthest_position, farthest_position)
                                   : diagonal;
    if (causal) visible = std::clamp<std::int64_t>(row % queries + first + 1, 0, visible);
    // Written so that a NaN sees nothing. Bounded before the conversion: a distant center does not fit an integer.
    const double begin = std::ceil(center[row] - radius), end = std::floor(center[row] + radius) + 1;
    const auto limit = static_cast<double>(visible);
    const bool any = begin < end && begin < limit && end > 0;
    range[2 * row] = any ? static_cast<std::int64_t>(std::max(begin, 0.0)) : 0;
    range[2 * row + 1] = any ? static_cast<std::int64_t>(std::min(end, limit)) : 0;
  }
  return ranges;
}

at::Tensor local_ranges_meta(const at::Tensor& centers, c10::SymInt, double, bool, c10::SymInt,
                             const std::optional<at::Tensor>& key_lengths, const std::optional<at::Tensor>&) {
  return at::empty_symint({batch_of(centers, key_lengths), centers.sym_size(1), centers.sym_size(2), 2},
                          centers.options().dtype(at::kLong));
}

}  // namespace

at::Tensor packed_ranges(const at::Tensor& cu_seqlens, c10::SymInt length, bool causal, std::int64_t window) {
  static const auto handle = find_operator<decltype(packed_ranges)>("cogwheel::packed_ranges");
  return handle.call(cu_seqlens, std::move(length), causal, window);
}

at::Tensor local_ranges(const at::Tensor& centers, c10::SymInt keys, double radius, bool causal, c10::SymInt diagonal,
                        const std::optional<at::Tensor>& key_lengths,
                        const std::optional<at::Tensor>& first_positions) {
  static const auto handle = find_operator<decltype(local_ranges)>("cogwheel::local_ranges");
  return handle.call(centers, std::move(keys), radius, causal, std::move(diagonal), key_lengths, first_positions);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("packed_ranges(Tensor cu_seqlens, SymInt length, bool causal, int window) -> Tensor");
  library.def(
      "local_ranges(Tensor centers, SymInt keys, float radius, bool causal, SymInt diagonal, Tensor? key_lengths, "
      "Tensor? first_positions=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("packed_ranges", packed_ranges_cpu);
  library.impl("local_ranges", local_ranges_cpu);
}

// The checks depend on the values, so the host reads them.
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_on_host(library, "packed_ranges");
  implement_on_host(library, "local_ranges");
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("packed_ranges", packed_ranges_meta);
  library.impl("local_ranges", local_ranges_meta);
}

}  // namespace cogwheel::ops
