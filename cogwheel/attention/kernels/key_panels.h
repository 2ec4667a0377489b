// Keys as products read them, in panels of 64: the layout, and a view. A cache keeps its keys so, that decoding need
// not transpose them.
//
//   [batch, heads, panels, head_dim / group, 64, group]
//
// holds element d of key j at [j / 64][d / group][j % 64][d % group]. A group is what one lane of a product reads: a
// pair of bfloat16 (cpu/pair_product.h), else one element.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/heads_view.h"

namespace cogwheel {

// The widest register tile of any target, so that a panel serves all of them.
inline constexpr std::int64_t keys_of_panel = 64;

constexpr std::int64_t panels_of(std::int64_t keys) { return (keys + keys_of_panel - 1) / keys_of_panel; }

// Pairs are of bfloat16, where there are whole ones.
constexpr std::int64_t group_of_panels(bool bfloat16, std::int64_t head_dim) {
  return bfloat16 && head_dim % 2 == 0 ? 2 : 1;
}

// The panels of each head lie one after the other; strides in elements. T is the compute dtype, as in HeadsView.
// Numbers of keys that no query sees, also beyond the last key, may be anything.
template <class T>
class KeyPanels {
 public:
  KeyPanels() = default;
  // `rows`: where the panels of the first head begin, and where those of the others; its stride of rows is not read.
  KeyPanels(const HeadsView<const T>& rows, std::int64_t head_dim) : rows_(rows), head_dim_(head_dim) {}

  bool any() const { return head_dim_ > 0; }
  Elements elements() const { return rows_.elements(); }
  bool is_compute_dtype() const { return rows_.is_compute_dtype(); }
  bool are_pairs() const { return group_of_panels(elements() == Elements::bfloat16, head_dim_) == 2; }

  // Only where elements are of the compute dtype.
  const T* panel(std::int64_t batch, std::int64_t head, std::int64_t index) const {
    return rows_.row(batch, head, 0) + index * keys_of_panel * head_dim_;
  }
  // Only where elements have 16 bits.
  const std::uint16_t* half_panel(std::int64_t batch, std::int64_t head, std::int64_t index) const {
    return rows_.half_row(batch, head, 0) + index * keys_of_panel * head_dim_;
  }

 private:
  HeadsView<const T> rows_;
  std::int64_t head_dim_ = 0;
};

}  // namespace cogwheel
