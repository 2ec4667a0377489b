// bfloat16 numbers in the lanes of a vector of floats.
#pragma once

namespace cogwheel::HWY_NAMESPACE {

// A bfloat16 is the upper half of a float.
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>> widened_bfloat16(const std::uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> floats;
  const hn::RebindToUnsigned<decltype(floats)> bits;
  const hn::Rebind<std::uint16_t, decltype(floats)> halves;
  return hn::BitCast(floats, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(halves, from))));
}

// A vector of pairs as two: the lower elements and the upper ones, which take one instruction each to widen.
HWY_INLINE void widen_pairs_of(const void* from, hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>>& lower,
                               hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>>& upper) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> floats;
  const hn::RebindToUnsigned<decltype(floats)> bits;
  // Element by element, since 16-bit numbers are not 32-bit ones in memory.
  const hn::Repartition<std::uint16_t, decltype(floats)> halves;
  const auto pairs = hn::BitCast(bits, hn::LoadU(halves, static_cast<const std::uint16_t*>(from)));
  lower = hn::BitCast(floats, hn::ShiftLeft<16>(pairs));
  upper = hn::BitCast(floats, hn::And(pairs, hn::Set(bits, 0xffff0000)));
}

}  // namespace cogwheel::HWY_NAMESPACE
