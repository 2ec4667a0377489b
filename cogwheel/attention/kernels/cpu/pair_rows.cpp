// Includes nothing that other units share inline: this one is compiled for instructions that a machine may lack.
#include "cogwheel/attention/kernels/cpu/pair_rows.h"

#include <immintrin.h>

namespace cogwheel {
namespace {

// Masked forms throughout: g++ 12 warns of the undefined register that its own unmasked ones start from.
constexpr int lanes = 16;
constexpr __mmask16 all = 0xffff;

// 16 elements, or fewer, in the lower halves of 16 lanes.
__m512i load_halves(const std::uint16_t* from, std::int64_t count) {
  const auto mask = static_cast<__mmask16>(count >= lanes ? 0xffff : (1u << count) - 1);
  return _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, from));
}

}  // namespace

bool pair_rows(const std::uint16_t* from, std::int64_t row_stride, std::int64_t count, std::int64_t width, float* to,
               std::int64_t to_row) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 non_finite = 0;
  for (std::int64_t j = 0; j < count; j += 2, from += 2 * row_stride, to += to_row)
    for (std::int64_t d = 0; d < to_row; d += lanes) {
      const std::int64_t rest = width - d > 0 ? width - d : 0;
      __m512i pairs = load_halves(from + d, rest);
      if (j + 1 < count)
        pairs = _mm512_or_si512(pairs, _mm512_maskz_slli_epi32(all, load_halves(from + row_stride + d, rest), 16));
      non_finite |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(pairs, exponent), exponent);
      _mm512_storeu_si512(to + d, pairs);
    }
  return non_finite != 0;
}

void round_to_pairs(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_row, float* to,
                    std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t x = 0; x < columns; x += lanes) {
      const __m256bh halves = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + r * from_row + x));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + r * to_row + x / 2), (__m256i)halves);  // NOLINT
    }
}

void round_to_pairs_of_rows(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_row,
                            const float* factors, float* to, std::int64_t to_row) {
  // Element x of both rows beside each other.
  alignas(64) std::uint16_t order[2 * lanes];
  for (int x = 0; x < lanes; ++x) {
    order[2 * x] = static_cast<std::uint16_t>(x);
    order[2 * x + 1] = static_cast<std::uint16_t>(lanes + x);
  }
  const __m512i interleaved = _mm512_load_si512(order);
  const __m512 zero = _mm512_setzero_ps();
  const auto scaled = [zero](const float* row, float factor) {
    const __m512 x = _mm512_loadu_ps(row);
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, zero, _CMP_NEQ_UQ), x, _mm512_set1_ps(factor));
  };
  for (std::int64_t r = 0; r < rows; r += 2, from += 2 * from_row, to += to_row) {
    const bool alone = r + 1 == rows;
    for (std::int64_t x = 0; x < columns; x += lanes) {
      const __m512 lower = factors ? scaled(from + x, factors[r]) : _mm512_loadu_ps(from + x);
      const __m512 upper = alone     ? zero
                           : factors ? scaled(from + from_row + x, factors[r + 1])
                                     : _mm512_loadu_ps(from + from_row + x);
      const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(upper, lower);  // NOLINT
      _mm512_storeu_si512(to + x, _mm512_maskz_permutexvar_epi16(0xffffffff, interleaved, halves));
    }
  }
}

void select_of_pairs(const float* from, std::int64_t width, bool lower, bool upper, float* to) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>((lower ? 0x0000ffffu : 0u) | (upper ? 0xffff0000u : 0u)));
  for (std::int64_t d = 0; d < width; d += lanes)
    _mm512_storeu_si512(to + d, _mm512_and_si512(_mm512_loadu_si512(from + d), mask));
}

}  // namespace cogwheel
