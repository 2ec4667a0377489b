// What the two directions of a state space share: blocks of columns, and what a head has for all its tokens. Columns of
// the state are independent until dq and dk add them up. Included inside the region of a target.
#pragma once
#include "cogwheel/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Columns of a block in vectors: at most so many that a row of its state, its exponents and its gradients are in
// registers, and fewer where a head alone would have one task.
struct ColumnBlocks {
  std::int64_t vectors, blocks;

  ColumnBlocks(std::int64_t heads, std::int64_t value_width, std::int64_t lanes) {
    const std::int64_t all = (value_width + lanes - 1) / lanes;
    for (vectors = 4; vectors > 1; vectors /= 2)
      if (heads * ((all + vectors - 1) / vectors) >= fewest_tasks) break;
    blocks = (all + vectors - 1) / vectors;
  }

 private:
  static constexpr std::int64_t fewest_tasks = 2;
};

// run(vectors) with a constant that holds `columns`.
template <class T, class Run>
void for_vectors(std::int64_t columns, const Run& run) {
  if (columns <= Vector<T>::lanes)
    run(std::integral_constant<int, 1>());
  else if (columns <= 2 * Vector<T>::lanes)
    run(std::integral_constant<int, 2>());
  else
    run(std::integral_constant<int, 4>());
}

template <class T>
HWY_INLINE void load_padded(const T* from, std::int64_t columns, std::int64_t padded, T* to) {
  for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c];
  for (std::int64_t c = columns; c < padded; ++c) to[c] = T(0);
}

// Rows [key_width] of a block; `from` null: 0.
template <class T>
void load_rows(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t columns, std::int64_t padded,
               T* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    load_padded(from ? from + row * stride : to, from ? columns : 0, padded, to + row * padded);
}
template <class T>
void store_rows(const T* from, std::int64_t rows, std::int64_t padded, std::int64_t columns, std::int64_t stride,
                T* to) {
  for (std::int64_t row = 0; row < rows; ++row) std::copy_n(from + row * padded, columns, to + row * stride);
}

// A block of columns of one sequence and head.
template <class T, bool selective, int vectors>
class StateSpaceBlock {
 protected:
  using V = Vector<T>;
  static constexpr std::int64_t padded = vectors * V::lanes;

  StateSpaceBlock(const StateSpaceProblem<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t column)
      : given_(problem),
        span_(problem.shape.span(sequence)),
        head_(head),
        column_(column),
        rows_(problem.shape.key_width),
        columns_(std::min(padded, problem.shape.value_width - column)),
        of_head_(sequence * problem.shape.heads + head) {}

  // Where the block begins in numbers of every sequence and head, [sequences, heads, key_width, value_width].
  std::int64_t first_element() const { return of_head_ * rows_ * given_.shape.value_width + column_; }
  void load_state(const T* from, T* to) const {
    load_rows(from ? from + first_element() : nullptr, rows_, given_.shape.value_width, columns_, padded, to);
  }
  void store_state(const T* from, T* to) const {
    store_rows(from, rows_, padded, columns_, given_.shape.value_width, to + first_element());
  }

  void take_constants(WorkspaceLayout& layout) {
    const auto take = [&] { return layout.take<T>(static_cast<std::size_t>(rows_ * padded)); };
    rate_ = take();
    if constexpr (!selective) {
      write_ = take();
      read_ = take();
    }
  }
  // `rate_` is a, or fixed the multiplier of every token.
  void load_constants() {
    const auto load = [this](const HeadTable<const T>& table, T* to) {
      load_rows(table.of(head_) + column_, rows_, given_.shape.value_width, columns_, padded, to);
    };
    load(given_.rate, rate_);
    if constexpr (!selective) {
      load(given_.write, write_);
      load(given_.read, read_);
      T delta[padded];
      load_padded(given_.delta.row(span_.batch, head_, 0) + column_, columns_, padded, delta);
      for (std::int64_t i = 0; i < rows_ * padded; i += V::lanes)
        V::exp_nonpositive(V::load(delta + i % padded) * V::load(rate_ + i)).store(rate_ + i);
    }
  }

  // Of tokens [first, first + count): what they write, v or Δ ∘ v, and Δ.
  void load_tokens(std::int64_t first, std::int64_t count, T* written, T* deltas) const {
    for (std::int64_t t = 0; t < count; ++t) {
      load_padded(given_.value.row(span_.batch, head_, first + t) + column_, columns_, padded, written + t * padded);
      if constexpr (selective) {
        T* delta = deltas + t * padded;
        load_padded(given_.delta.row(span_.batch, head_, first + t) + column_, columns_, padded, delta);
        for (std::int64_t c = 0; c < padded; ++c) written[t * padded + c] *= delta[c];
      }
    }
  }

  // One row of the state with its exponents in registers.
  struct Row {
    V state[vectors], rate[vectors], write[vectors], read[vectors];
  };
  HWY_INLINE Row row_of(std::int64_t row, const T* state) const {
    Row of;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t at = row * padded + v * V::lanes;
      of.state[v] = V::load(state + at);
      of.rate[v] = V::load(rate_ + at);
      if constexpr (!selective) {
        of.write[v] = V::load(write_ + at);
        of.read[v] = V::load(read_ + at);
      }
    }
    return of;
  }
  static HWY_INLINE V multiplier(const Row& of, int v, const T* deltas) {
    if constexpr (selective)
      return V::exp_nonpositive(V::load(deltas + v * V::lanes) * of.rate[v]);
    else
      return of.rate[v];
  }

  const StateSpaceProblem<T>& given_;
  const StateSpaceShape::Span span_;
  std::int64_t head_, column_, rows_, columns_, of_head_;
  T *rate_ = nullptr, *write_ = nullptr, *read_ = nullptr;
};

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
