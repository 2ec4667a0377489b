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

}  // namespace cogwheel::HWY_NAMESPACE
