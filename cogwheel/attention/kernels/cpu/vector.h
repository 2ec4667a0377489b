// The lane type of the CPU engines: one SIMD register of Highway's current target with the vocabulary of lane.h.
// Included inside the region of a target, once per translation unit (see pairwise_cpu.cpp.in).
#pragma once

namespace cogwheel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Vector {
  using Tag = hn::ScalableTag<T>;
  using Raw = hn::Vec<Tag>;
  using Mask = hn::Mask<Tag>;
  static constexpr int lanes = HWY_LANES(T);

  Raw raw;

  HWY_INLINE Vector() = default;
  HWY_INLINE Vector(Raw r) : raw(r) {}  // NOLINT: a register is a vector
  HWY_INLINE explicit Vector(T scalar) : raw(hn::Set(Tag(), scalar)) {}

  static HWY_INLINE Vector constant(double x) { return Vector(static_cast<T>(x)); }
  static HWY_INLINE Vector load(const T* from) { return hn::LoadU(Tag(), from); }
  HWY_INLINE void store(T* to) const { hn::StoreU(raw, Tag(), to); }
  // The first `count` ≤ lanes of an array, then zeros.
  static HWY_INLINE Vector load_first(const T* from, std::int64_t count) {
    if (count == lanes) return load(from);
    T padded[lanes] = {};
    std::copy_n(from, count, padded);
    return load(padded);
  }
  HWY_INLINE void store_first(T* to, std::int64_t count) const {
    if (count == lanes) return store(to);
    T all[lanes];
    store(all);
    std::copy_n(all, count, to);
  }

  friend HWY_INLINE Vector operator+(Vector a, Vector b) { return hn::Add(a.raw, b.raw); }
  friend HWY_INLINE Vector operator-(Vector a, Vector b) { return hn::Sub(a.raw, b.raw); }
  friend HWY_INLINE Vector operator*(Vector a, Vector b) { return hn::Mul(a.raw, b.raw); }
  friend HWY_INLINE Vector operator/(Vector a, Vector b) { return hn::Div(a.raw, b.raw); }
  friend HWY_INLINE Vector operator-(Vector a) { return hn::Neg(a.raw); }
  friend HWY_INLINE Mask operator==(Vector a, Vector b) { return hn::Eq(a.raw, b.raw); }
  friend HWY_INLINE Mask operator<(Vector a, Vector b) { return hn::Lt(a.raw, b.raw); }
  friend HWY_INLINE Mask operator>(Vector a, Vector b) { return hn::Gt(a.raw, b.raw); }
  friend HWY_INLINE Mask operator<=(Vector a, Vector b) { return hn::Le(a.raw, b.raw); }
  friend HWY_INLINE Mask operator>=(Vector a, Vector b) { return hn::Ge(a.raw, b.raw); }

  static HWY_INLINE Vector fma(Vector a, Vector b, Vector c) { return hn::MulAdd(a.raw, b.raw, c.raw); }
  // A NaN in `x` stays: x86 returns the second operand where either is NaN.
  static HWY_INLINE Vector max(Vector bound, Vector x) { return hn::Max(bound.raw, x.raw); }
  static HWY_INLINE Vector min(Vector bound, Vector x) { return hn::Min(bound.raw, x.raw); }
  static HWY_INLINE Vector abs(Vector x) { return hn::Abs(x.raw); }
  static HWY_INLINE Vector copysign(Vector magnitude, Vector sign) { return hn::CopySign(magnitude.raw, sign.raw); }
  static HWY_INLINE Vector times_sign(Vector magnitude, Vector s) {
    return zero_where(s == Vector(T(0)), hn::OrAnd(magnitude.raw, hn::SignBit(Tag()), s.raw));
  }
  static HWY_INLINE Vector select(Mask condition, Vector yes, Vector no) {
    return hn::IfThenElse(condition, yes.raw, no.raw);
  }
  static HWY_INLINE Vector zero_where(Mask condition, Vector otherwise) {
    return hn::IfThenZeroElse(condition, otherwise.raw);
  }
  static HWY_INLINE Vector select_or_zero(Mask condition, Vector yes) { return hn::IfThenElseZero(condition, yes.raw); }

  // Lanes [begin, end).
  static HWY_INLINE Mask lanes_within(std::int64_t begin, std::int64_t end) {
    const Mask below_end = hn::FirstN(Tag(), static_cast<std::size_t>(end < 0 ? 0 : end));
    return begin <= 0 ? below_end : hn::AndNot(hn::FirstN(Tag(), static_cast<std::size_t>(begin)), below_end);
  }
  HWY_INLINE T sum() const { return hn::GetLane(hn::SumOfLanes(Tag(), raw)); }
  HWY_INLINE T maximum() const { return hn::GetLane(hn::MaxOfLanes(Tag(), raw)); }
  HWY_INLINE T minimum() const { return hn::GetLane(hn::MinOfLanes(Tag(), raw)); }

  static HWY_INLINE Vector exp(Vector x) {
    if constexpr (sizeof(T) == 4)
      return exp_float(x);
    else
      return exp_double(x);
  }

  static HWY_INLINE Vector exp_nonpositive(Vector x) {
    if constexpr (sizeof(T) == 4)
      return exp_float_nonpositive(x);
    else
      return exp_double(x);
  }

  // 2^(x·y) for x·y ≤ 0, within 2 ulp: 1 at 0, and 0 where the result would not be normal.
  static HWY_INLINE Vector exp2_nonpositive(Vector x, Vector y) {
    if constexpr (sizeof(T) == 4)
      return exp2_float_nonpositive(x, y);
    else
      return exp_double(constant(0.693147180559945309) * (x * y));
  }

  // log within 2 ulp; −∞ at 0, NaN below, NaN and infinity kept.
  static HWY_INLINE Vector log(Vector x) {
    const Vector infinity(std::numeric_limits<T>::infinity());
    const Vector finite = select((x > Vector(T(0))), min(Vector(std::numeric_limits<T>::max()), x), Vector(T(1)));
    const Vector result = select(x < infinity, Vector(hn::Log(Tag(), finite.raw)), x);
    return select(x > Vector(T(0)), result, select(x == Vector(T(0)), -infinity, nan()));
  }

  // log(1 + x) within 3 ulp, also near 0; −∞ at −1, NaN below, NaN and infinity kept.
  //
  // With u = 1 + x rounded, log(u) is right except for the part of x lost in u: x/(u − 1) corrects it, as u − 1 is
  // exact near 0 (Kahan). u = 1 gives x itself.
  static HWY_INLINE Vector log1p(Vector x) {
    const Vector u = Vector(T(1)) + x, taken = u - Vector(T(1));
    const Vector corrected = select(taken == Vector(T(0)), x, log(u) * (x / taken));
    return select(x < Vector(std::numeric_limits<T>::infinity()), corrected, x);
  }

  static HWY_INLINE Vector sqrt(Vector x) { return hn::Sqrt(x.raw); }

  // sin and cos within 3 ulp of the larger of the value and 2⁻²³ (float) or 2⁻⁵² (double) for |x| ≤ 39000; NaN beyond,
  // where Highway's reduction by multiples of π loses x.
  static HWY_INLINE Vector sin(Vector x) { return within_reduction(x, hn::Sin(Tag(), reducible(x).raw)); }
  static HWY_INLINE Vector cos(Vector x) { return within_reduction(x, hn::Cos(Tag(), reducible(x).raw)); }

  // tanh within 3 ulp for float and 4 for double, also near 0; ±1 at the infinities, NaN kept.
  static HWY_INLINE Vector tanh(Vector x) {
    Vector result;
    if constexpr (sizeof(T) == 4)
      result = tanh_float(x);
    else
      result = hn::Tanh(Tag(), zero_for_nan(x).raw);
    return select(x == x, result, x);
  }

 private:
  // exp(x) = 2^n (1 + rest), with n in the low bits of `shifted`.
  struct Reduced {
    Vector rest, shifted;
  };

  // exp within 1 ulp for normal results; 0 below the smallest normal number, infinity above the largest, NaN kept.
  //
  // x = n ln2 + r with n the nearest integer, ln2 in two parts so that n·ln2_high is exact for |n| < 2^9, and
  // exp(r) = 1 + r + r²(c0 + … + c4 r⁴) with minimax coefficients of the relative error on |r| ≤ ln2/2 (Remez
  // exchange at 40 digits, largest error 3.1e-9). 2^n enters through the exponent bits.
  static HWY_INLINE Reduced reduced(Vector bounded) {
    const Vector rounder(12582912.0f);  // 1.5 · 2^23: adding it leaves the nearest integer in the low bits
    const Vector shifted = fma(bounded, Vector(1.44269504088896341f), rounder);
    const Vector n = shifted - rounder;
    Vector r = fma(n, Vector(-0.693359375f), bounded);
    r = fma(n, Vector(2.12194440054690583e-4f), r);
    Vector p = fma(Vector(1.3814540e-3f), r, Vector(8.3687451e-3f));
    p = fma(p, r, Vector(4.1668391e-2f));
    p = fma(p, r, Vector(1.6666520e-1f));
    p = fma(p, r, Vector(4.9999993e-1f));
    return {.rest = fma(p, r * r, r), .shifted = shifted};
  }

  static constexpr float lowest_exponent = -87.33654475f, highest_exponent = 88.72283905f;

  // (1 + rest) 2^n. n = 128 fits into the exponent because rest < 0 at every x ≤ highest_exponent.
  static HWY_INLINE Vector scaled(Reduced of) {
    const hn::RebindToSigned<Tag> integers;
    const Vector p = of.rest + Vector(1.0f);
    return hn::BitCast(Tag(),
                       hn::Add(hn::BitCast(integers, p.raw), hn::ShiftLeft<23>(hn::BitCast(integers, of.shifted.raw))));
  }

  static HWY_INLINE Vector exp_float(Vector x) {
    const Vector lowest(lowest_exponent), highest(highest_exponent);
    const Vector within = scaled(reduced(max(lowest, min(highest, x))));
    const Vector result = select(x > highest, Vector(std::numeric_limits<T>::infinity()), within);
    return select(x == x, zero_where(x < lowest, result), x);  // sums of bits may make a number of a NaN
  }

  // exp for x ≤ 0 within 3 + |x|/4 ulp, 1 at 0; limits as exp. Where it is called, a relative error of an x far below 0
  // is of a number far below 1, so that a polynomial that is shorter than that of exp will do.
  //
  // x log2(e) = n + r with n the nearest integer, and 2^r by a minimax polynomial of the relative error on |r| ≤ 1/2
  // that is 1 at 0 (iteratively reweighted least squares, largest error 9.2e-8). Adding the rounder leaves n + 127 in
  // the low bits: shifted up, the bits of 2^n. A product with it keeps a NaN, whatever its payload, as a sum of bits
  // does not.
  static HWY_INLINE Vector exp_float_nonpositive(Vector x) {
#if !HWY_NATIVE_FMA  // whose single rounding this reduction needs
    return exp_float(x);
#else
    const hn::RebindToSigned<Tag> integers;
    const Vector rounder(12582912.0f + 127.0f), log2e(1.44269504088896341f);
    const Vector shifted = fma(x, log2e, rounder);
    const Vector r = Vector(hn::MulSub(x.raw, log2e.raw, (shifted - rounder).raw));
    Vector p = fma(Vector(1.32647271e-3f), r, Vector(9.67151267e-3f));
    p = fma(p, r, Vector(5.55073374e-2f));
    p = fma(p, r, Vector(2.40222421e-1f));
    p = fma(p, r, Vector(6.93146978e-1f));
    p = fma(p, r, Vector(1.0f));
    const Vector power = hn::BitCast(Tag(), hn::ShiftLeft<23>(hn::BitCast(integers, shifted.raw)));
    return zero_where(x < Vector(lowest_exponent), p * power);
#endif
  }

  // x·y = n + r with n the nearest integer, exact but for one rounding, and 2^r by a minimax polynomial of the relative
  // error on |r| ≤ 1/2 that is 1 at 0 (iteratively reweighted least squares, largest error 2.0e-9): a state that is
  // multiplied by thousands of powers sees what their errors have in common.
  static HWY_INLINE Vector exp2_float_nonpositive(Vector x, Vector y) {
    const hn::RebindToSigned<Tag> integers;
    const Vector rounder(12582912.0f + 127.0f);
    const Vector shifted = fma(x, y, rounder);
    const Vector r = Vector(hn::MulSub(x.raw, y.raw, (shifted - rounder).raw));
    Vector p = fma(Vector(1.53533620e-4f), r, Vector(1.33988745e-3f));
    p = fma(p, r, Vector(9.61843736e-3f));
    p = fma(p, r, Vector(5.55033247e-2f));
    p = fma(p, r, Vector(2.40226479e-1f));
    p = fma(p, r, Vector(6.93147203e-1f));
    p = fma(p, r, Vector(1.0f));
    const Vector power = hn::BitCast(Tag(), hn::ShiftLeft<23>(hn::BitCast(integers, shifted.raw)));
    return zero_where(shifted < rounder - Vector(125.0f), p * power);
  }

  // (e − 1)/(e + 1) with e = exp(2|x|). e − 1 is computed from the rest, which is accurate near 0 where e itself has
  // lost x. At |x| = 10 the quotient rounds to 1.
  static HWY_INLINE Vector tanh_float(Vector x) {
    const hn::RebindToSigned<Tag> integers;
    const Vector magnitude = min(Vector(10.0f), abs(x));
    const auto [rest, shifted] = reduced(magnitude + magnitude);
    const auto exponent = hn::Add(hn::BitCast(integers, shifted.raw), hn::Set(integers, 127));
    const Vector power = hn::BitCast(Tag(), hn::ShiftLeft<23>(exponent));  // 2^n
    const Vector less_one = fma(power, rest, power - Vector(1.0f));
    return copysign(less_one / (less_one + Vector(2.0f)), x);
  }

  static HWY_INLINE Vector nan() { return Vector(std::numeric_limits<T>::quiet_NaN()); }

  static constexpr T largest_reducible = T(39000);
  static HWY_INLINE Vector reducible(Vector x) { return select_or_zero(abs(x) <= Vector(largest_reducible), x); }
  static HWY_INLINE Vector within_reduction(Vector x, Vector result) {
    return select(abs(x) <= Vector(largest_reducible), result, nan());
  }

  // Highway's functions of doubles convert their argument to integers, which is undefined for a NaN.
  static HWY_INLINE Vector zero_for_nan(Vector x) { return select_or_zero(x == x, x); }

  // Highway's exp handles neither NaN nor infinity.
  static HWY_INLINE Vector exp_double(Vector x) {
    const Vector highest(T(709.782712893384));
    const Vector exponential = hn::Exp(Tag(), min(highest, zero_for_nan(x)).raw);
    const Vector result = select(x > highest, Vector(std::numeric_limits<T>::infinity()), exponential);
    return select(x == x, result, x);
  }
};

}  // namespace cogwheel::HWY_NAMESPACE
