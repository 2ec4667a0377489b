// half_rows.h for one instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/bfloat16_lanes.h"
#include "cogwheel/attention/kernels/cpu/half_rows.h"

namespace cogwheel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Floats = hn::ScalableTag<float>;
using Bits = hn::RebindToUnsigned<Floats>;
using HalfBits = hn::Rebind<std::uint16_t, Floats>;
constexpr std::int64_t lanes = HWY_LANES(float);

struct BFloat16Rows {
  static HWY_INLINE hn::Vec<Floats> widen(const std::uint16_t* from) { return widened_bfloat16(from); }
  static HWY_INLINE void round(hn::Vec<Floats> x, std::uint16_t* to) {
    const Bits d;
    const auto bits = hn::BitCast(d, x);
    // Half of the last place, less one where the place is even; a NaN would round to an infinity.
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(last, hn::Set(d, 0x7fff))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x0040));
    const auto result = hn::IfThenElse(hn::RebindMask(d, hn::Eq(x, x)), rounded, quiet);
    hn::StoreU(hn::TruncateTo(HalfBits(), result), HalfBits(), to);
  }
};

#if HWY_TARGET == HWY_EMU128
// Highway's portable conversion truncates, and does not handle infinity and NaN.
struct Float16Rows {
  static float widen_one(std::uint16_t half) {
    const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, exponent = (half >> 10) & 31,
                        fraction = half & 1023;
    if (exponent == 0)
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(0x1p-24f * static_cast<float>(fraction)));
    return std::bit_cast<float>(sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (fraction << 13));
  }
  static std::uint16_t round_one(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;
    std::uint32_t half;
    if (size > 0x7f800000)
      half = 0x7e00;
    else if (size >= 0x477ff000)  // 65,520 and above round to infinity
      half = 0x7c00;
    else if (size < 0x38800000)  // below 2⁻¹⁴: the last place of ½ is 2⁻²⁴, that of the subnormal halves
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
    else
      half = (size + 0xfff + ((size >> 13) & 1) - (112u << 23)) >> 13;
    return static_cast<std::uint16_t>(sign | half);
  }
  static hn::Vec<Floats> widen(const std::uint16_t* from) {
    float x[lanes];
    for (std::int64_t i = 0; i < lanes; ++i) x[i] = widen_one(from[i]);
    return hn::LoadU(Floats(), x);
  }
  static void round(hn::Vec<Floats> vector, std::uint16_t* to) {
    float x[lanes];
    hn::StoreU(vector, Floats(), x);
    for (std::int64_t i = 0; i < lanes; ++i) to[i] = round_one(x[i]);
  }
};
#else
struct Float16Rows {
  using Halves = hn::Rebind<hwy::float16_t, Floats>;
  static HWY_INLINE hn::Vec<Floats> widen(const std::uint16_t* from) {
    return hn::PromoteTo(Floats(), hn::BitCast(Halves(), hn::LoadU(HalfBits(), from)));
  }
  static HWY_INLINE void round(hn::Vec<Floats> x, std::uint16_t* to) {
    hn::StoreU(hn::BitCast(HalfBits(), hn::DemoteTo(Halves(), x)), HalfBits(), to);
  }
};
#endif

template <class Type>
void widen_rows_of(const std::uint16_t* from, std::int64_t row_stride, std::int64_t count, std::int64_t width,
                   float* to, std::int64_t to_stride) {
  const std::int64_t whole = width / lanes * lanes;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::uint16_t* in = from + r * row_stride;
    float* out = to + r * to_stride;
    for (std::int64_t x = 0; x < whole; x += lanes) hn::StoreU(Type::widen(in + x), Floats(), out + x);
    if (whole < to_stride) {
      std::uint16_t tail[lanes] = {};
      float widened[lanes];
      std::copy_n(in + whole, width - whole, tail);
      hn::StoreU(Type::widen(tail), Floats(), widened);
      std::copy_n(widened, std::min(lanes, to_stride - whole), out + whole);
    }
  }
}

template <class Type>
void round_row_of(const float* from, std::int64_t width, std::uint16_t* to) {
  const std::int64_t whole = width / lanes * lanes;
  for (std::int64_t x = 0; x < whole; x += lanes) Type::round(hn::LoadU(Floats(), from + x), to + x);
  if (whole < width) {
    float tail[lanes] = {};
    std::uint16_t rounded[lanes];
    std::copy_n(from + whole, width - whole, tail);
    Type::round(hn::LoadU(Floats(), tail), rounded);
    std::copy_n(rounded, width - whole, to + whole);
  }
}

}  // namespace

void widen_rows(const std::uint16_t* from, Elements elements, std::int64_t row_stride, std::int64_t count,
                std::int64_t width, float* to, std::int64_t to_stride) {
  (elements == Elements::bfloat16 ? widen_rows_of<BFloat16Rows> : widen_rows_of<Float16Rows>)(from, row_stride, count,
                                                                                              width, to, to_stride);
}

void widen_pairs(const std::uint16_t* from, std::int64_t count, std::int64_t width, float* to) {
  hn::Vec<Floats> lower, upper;
  for (std::int64_t p = 0; p < count; ++p, from += 2 * width, to += 2 * width)
    for (std::int64_t x = 0; x < width; x += lanes) {
      widen_pairs_of(from + 2 * x, lower, upper);
      hn::StoreU(lower, Floats(), to + x);
      hn::StoreU(upper, Floats(), to + width + x);
    }
}

void round_row(const float* from, std::int64_t width, Elements elements, std::uint16_t* to) {
  (elements == Elements::bfloat16 ? round_row_of<BFloat16Rows> : round_row_of<Float16Rows>)(from, width, to);
}

}  // namespace cogwheel::HWY_NAMESPACE
