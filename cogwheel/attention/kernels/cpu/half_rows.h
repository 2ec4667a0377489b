// Rows of 16-bit numbers, widened to float and rounded back. Compiled once per instruction set in half_rows.cpp.in.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/heads_view.h"

namespace cogwheel::HWY_NAMESPACE {

// `count` rows of `width` elements, bfloat16 or float16, to rows of floats `to_stride` ≥ width apart, 0 beyond width.
void widen_rows(const std::uint16_t* from, Elements elements, std::int64_t row_stride, std::int64_t count,
                std::int64_t width, float* to, std::int64_t to_stride);

// `count` rows of `width` pairs of bfloat16, `width` a whole number of vectors, to 2 · count rows of floats: of each
// pair the lower element, then the upper one.
void widen_pairs(const std::uint16_t* from, std::int64_t count, std::int64_t width, float* to);

// One row of floats to 16-bit elements, rounded to nearest even.
void round_row(const float* from, std::int64_t width, Elements elements, std::uint16_t* to);

}  // namespace cogwheel::HWY_NAMESPACE
