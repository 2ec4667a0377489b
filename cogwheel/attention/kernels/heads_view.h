// A view of the rows of heads: their addresses and the type of their elements.
#pragma once
#include <cassert>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace cogwheel {

// 16-bit numbers as bits. Engines widen them to float as they read, and round to nearest even as they write.
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {  // IEEE binary16
  std::uint16_t bits;
};

enum class Elements { compute_dtype, bfloat16, float16 };  // compute_dtype: the type that the engine computes in

// [batch, heads, rows, width] with contiguous width; strides in elements. T is the compute dtype, const where
// the engine only reads; the elements are T, or for float also BFloat16 or Float16.
template <class T>
class HeadsView {
  template <class Element>
  using As = std::conditional_t<std::is_const_v<T>, const Element, Element>;

 public:
  HeadsView() = default;
  HeadsView(T* data, std::int64_t batch_stride, std::int64_t head_stride, std::int64_t row_stride)
      : data_(data), batch_stride_(batch_stride), head_stride_(head_stride), row_stride_(row_stride) {}
  HeadsView(As<BFloat16>* data, std::int64_t batch_stride, std::int64_t head_stride,
            std::int64_t row_stride) requires std::same_as < std::remove_const_t<T>,
  float > : data_(data), batch_stride_(batch_stride), head_stride_(head_stride), row_stride_(row_stride),
      elements_(Elements::bfloat16) {}
  HeadsView(As<Float16>* data, std::int64_t batch_stride, std::int64_t head_stride,
            std::int64_t row_stride) requires std::same_as < std::remove_const_t<T>,
  float > : data_(data), batch_stride_(batch_stride), head_stride_(head_stride), row_stride_(row_stride),
      elements_(Elements::float16) {}

  Elements elements() const { return elements_; }
  bool is_compute_dtype() const { return elements_ == Elements::compute_dtype; }
  std::int64_t row_stride() const { return row_stride_; }

  // Whether elements are bfloat16 and every row is aligned to two of them.
  bool lies_in_pairs() const {
    return elements_ == Elements::bfloat16 && reinterpret_cast<std::uintptr_t>(data_) % 4 == 0 &&
           batch_stride_ % 2 == 0 && head_stride_ % 2 == 0 && row_stride_ % 2 == 0;
  }

  // Only where elements are of the compute dtype.
  T* row(std::int64_t batch, std::int64_t head, std::int64_t index) const {
    assert(is_compute_dtype());
    return static_cast<T*>(data_) + offset(batch, head, index);
  }
  // Only where elements have 16 bits.
  As<std::uint16_t>* half_row(std::int64_t batch, std::int64_t head, std::int64_t index) const {
    assert(!is_compute_dtype());
    return static_cast<As<std::uint16_t>*>(data_) + offset(batch, head, index);
  }

 private:
  std::int64_t offset(std::int64_t batch, std::int64_t head, std::int64_t index) const {
    return batch * batch_stride_ + head * head_stride_ + index * row_stride_;
  }

  As<void>* data_ = nullptr;
  std::int64_t batch_stride_ = 0, head_stride_ = 0, row_stride_ = 0;
  Elements elements_ = Elements::compute_dtype;
};
template <class T>
HeadsView(T*, std::int64_t, std::int64_t, std::int64_t) -> HeadsView<T>;

}  // namespace cogwheel
