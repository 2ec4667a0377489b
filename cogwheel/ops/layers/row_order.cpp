#include "cogwheel/ops/layers/row_order.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cogwheel::ops {
namespace {

typedef float Four __attribute__((vector_size(16)));

constexpr std::int64_t side = 64;  // of a block, two of which fit into the first cache

// Columns of `from`, `stride` numbers apart, become rows of `block`.
void transpose_four(const float* from, std::int64_t stride, float* block) {
  Four a, b, c, d;
  std::memcpy(&a, from, sizeof a);
  std::memcpy(&b, from + stride, sizeof b);
  std::memcpy(&c, from + 2 * stride, sizeof c);
  std::memcpy(&d, from + 3 * stride, sizeof d);
  const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four rows[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int row = 0; row < 4; ++row) std::memcpy(block + row * side, &rows[row], sizeof rows[row]);
}

// Past the caches, without reading first what is overwritten.
void write_streaming(float* to, const float* from) {
#if defined(__SSE2__)
  for (int i = 0; i < side; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
#else
  std::memcpy(to, from, side * sizeof(float));
#endif
}

void end_of_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

struct Transposed {
  const float* from;
  std::int64_t stride;  // between columns of the matrix, whose rows are 1 apart
  float* to;            // [rows, width]
  std::int64_t rows, width;
  bool streams;

  void write_block(std::int64_t row, std::int64_t column) const {
    alignas(64) float block[side * side];
    const std::int64_t tall = std::min(side, rows - row), wide = std::min(side, width - column);
    const float* const corner = from + column * stride + row;
    const std::int64_t by_four = tall - tall % 4, wide_by_four = wide - wide % 4;
    for (std::int64_t c = 0; c < wide_by_four; c += 4)
      for (std::int64_t r = 0; r < by_four; r += 4)
        transpose_four(corner + c * stride + r, stride, block + r * side + c);
    for (std::int64_t c = 0; c < wide; ++c)
      for (std::int64_t r = c < wide_by_four ? by_four : 0; r < tall; ++r) block[r * side + c] = corner[c * stride + r];
    for (std::int64_t r = 0; r < tall; ++r) {
      float* const target = to + (row + r) * width + column;
      if (streams && wide == side)
        write_streaming(target, block + r * side);
      else
        std::memcpy(target, block + r * side, static_cast<std::size_t>(wide) * sizeof(float));
    }
  }

  void write_rows(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int64_t column = 0; column < width; column += side) write_block(block * side, column);
    end_of_streaming();
  }
};

}  // namespace

at::Tensor in_row_order(const at::Tensor& matrix) {
  const bool transposed = matrix.dim() == 2 && matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0) &&
                          matrix.scalar_type() == at::kFloat && matrix.is_cpu() && !matrix.is_contiguous();
  if (!transposed || matrix.numel() == 0) return matrix.contiguous();
  const std::int64_t rows = matrix.size(0), width = matrix.size(1);
  const at::Tensor copy = at::empty({rows, width}, matrix.options());
  float* const to = copy.mutable_data_ptr<float>();
  constexpr std::int64_t cached = 1 << 20;  // numbers that may stay in a cache until they are read
  const bool aligned = width % 4 == 0 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  const Transposed problem{matrix.const_data_ptr<float>(),    matrix.stride(1), to, rows, width,
                           aligned && matrix.numel() > cached};
  at::parallel_for(0, (rows + side - 1) / side, std::max<std::int64_t>(1, (1 << 16) / (side * width)),
                   [&](std::int64_t begin, std::int64_t end) { problem.write_rows(begin, end); });
  return copy;
}

}  // namespace cogwheel::ops
