// What the two directions of a state space share: blocks of columns, and what a head has for all its tokens. Columns of
// the state are independent until dq and dk add them up. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector_sums.h"

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

// One row of a block, `columns` of its vectors' lanes, and of numbers that pad it with zeros.
template <class T, int vectors>
HWY_INLINE void load_row(const T* from, std::int64_t columns, T* to) {
  constexpr std::int64_t lanes = Vector<T>::lanes, padded = vectors * lanes;
  if (columns == padded) {
    for (std::int64_t c = 0; c < padded; c += lanes) Vector<T>::load(from + c).store(to + c);
    return;
  }
  for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c];
  for (std::int64_t c = columns; c < padded; ++c) to[c] = T(0);
}
template <class T, int vectors>
HWY_INLINE void store_row(const T* from, std::int64_t columns, T* to) {
  constexpr std::int64_t lanes = Vector<T>::lanes, padded = vectors * lanes;
  if (columns == padded)
    for (std::int64_t c = 0; c < padded; c += lanes) Vector<T>::load(from + c).store(to + c);
  else
    for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c];
}

// A block of columns of one sequence and head.
template <class T, bool selective, int vectors>
class StateSpaceBlock {
 protected:
  using V = Vector<T>;
  static constexpr std::int64_t padded = vectors * V::lanes;
  // A multiplier that is the same for every token is off in the same direction for every token: after a thousand of
  // them a float's rounding would be seen.
  static constexpr bool refined = !selective && sizeof(T) == 4;

  StateSpaceBlock(const StateSpaceProblem<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t column)
      : given_(problem),
        span_(problem.shape.span(sequence)),
        head_(head),
        column_(column),
        rows_(problem.shape.key_width),
        columns_(std::min(padded, problem.shape.value_width - column)),
        of_head_(sequence * problem.shape.heads + head) {}

  HWY_INLINE void load(const T* from, T* to) const { load_row<T, vectors>(from + column_, columns_, to); }
  HWY_INLINE void store(const T* from, T* to) const { store_row<T, vectors>(from, columns_, to + column_); }
  static HWY_INLINE V at(const T* row, int v) { return V::load(row + v * V::lanes); }

  // Where the block begins in numbers of every sequence and head, [sequences, heads, key_width, value_width].
  std::int64_t first_row() const { return of_head_ * rows_ * given_.shape.value_width; }
  void load_state(const T* from, T* to) const {
    if (from)
      load_rows(from + first_row(), to);
    else
      std::fill_n(to, rows_ * padded, T(0));
  }
  void store_state(const T* from, T* to) const {
    for (std::int64_t row = 0; row < rows_; ++row)
      store(from + row * padded, to + first_row() + row * given_.shape.value_width);
  }
  void load_rows(const T* from, T* to) const {
    for (std::int64_t row = 0; row < rows_; ++row) load(from + row * given_.shape.value_width, to + row * padded);
  }

  void take_constants(WorkspaceLayout& layout) {
    const auto take = [&] { return layout.take<T>(static_cast<std::size_t>(rows_ * padded)); };
    rate_ = take();
    if constexpr (!selective) {
      write_ = take();
      read_ = take();
      if constexpr (refined) rest_ = take();
    }
  }
  // `rate_` is a / ln 2, or fixed the multiplier of every token and `rest_` what its rounding has left out.
  void load_constants() {
    load_rows(given_.rate.of(head_), rate_);
    const V to_exponent = V::constant(1.44269504088896341);
    if constexpr (selective) {
      for (std::int64_t i = 0; i < rows_ * padded; i += V::lanes) (to_exponent * V::load(rate_ + i)).store(rate_ + i);
    } else {
      load_rows(given_.write.of(head_), write_);
      load_rows(given_.read.of(head_), read_);
      T deltas[padded];
      load(given_.delta.row(span_.batch, head_, 0), deltas);
      for (std::int64_t i = 0; i < rows_ * padded; i += V::lanes) {
        const V delta = V::load(deltas + i % padded), rate = V::load(rate_ + i);
        const V multiplier = V::exp2_nonpositive(delta, to_exponent * rate);
        multiplier.store(rate_ + i);
        if constexpr (refined) {  // where the multiplier less 1 is exact
          const V exponent = delta * rate, slow(T(-0.6875)), one(T(1));
          const V less_one(hn::Expm1(typename V::Tag(), V::max(slow, exponent).raw));
          V::select_or_zero(exponent > slow, less_one - (multiplier - one)).store(rest_ + i);
        }
      }
    }
  }

  // Of tokens [first, first + count): what they write, v or Δ ∘ v, and Δ.
  void load_tokens(std::int64_t first, std::int64_t count, T* written, T* deltas) const {
    for (std::int64_t t = 0; t < count; ++t, written += padded) {
      load(given_.value.row(span_.batch, head_, first + t), written);
      if constexpr (selective) {
        load(given_.delta.row(span_.batch, head_, first + t), deltas);
        for (int v = 0; v < vectors; ++v) (at(written, v) * at(deltas, v)).store(written + v * V::lanes);
        deltas += padded;
      }
    }
  }

  // Rows of the block lie apart in memory, where hardware does not see what comes next.
  template <class Element>
  void fetch(const HeadsView<Element>& view, std::int64_t first, std::int64_t count) const {
    constexpr std::int64_t of_line = 64 / sizeof(T);
    for (std::int64_t t = 0; t < count; ++t) {
      const Element* row = view.row(span_.batch, head_, first + t) + column_;
      for (std::int64_t c = 0; c < columns_; c += of_line) __builtin_prefetch(row + c, !std::is_const_v<Element>, 2);
    }
  }
  // Of as many tokens of the sequence from `begin` on as there are.
  void fetch_tokens(std::int64_t begin, std::int64_t count) const {
    if (begin < 0) return;
    count = std::min(count, span_.count - begin);
    fetch(given_.value, span_.begin + begin, count);
    if constexpr (selective) fetch(given_.delta, span_.begin + begin, count);
  }

  // One row of the state with its exponents in registers.
  struct StateRow {
    V state[vectors], rate[vectors], rest[vectors], write[vectors], read[vectors];
  };
  HWY_INLINE StateRow row_of(std::int64_t row, const T* state) const {
    StateRow of;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      of.state[v] = at(state + row * padded, v);
      of.rate[v] = at(rate_ + row * padded, v);
      if constexpr (!selective) {
        of.write[v] = at(write_ + row * padded, v);
        of.read[v] = at(read_ + row * padded, v);
        if constexpr (refined) of.rest[v] = at(rest_ + row * padded, v);
      }
    }
    return of;
  }
  static HWY_INLINE V multiplier(const StateRow& of, int v, const T* deltas) {
    if constexpr (selective)
      return V::exp2_nonpositive(at(deltas, v), of.rate[v]);
    else
      return of.rate[v];
  }

  // multiplier · x + y.
  static HWY_INLINE V decayed(const StateRow& of, int v, V multiplier, V x, V y) {
    if constexpr (refined) y = V::fma(of.rest[v], x, y);
    return V::fma(multiplier, x, y);
  }

  const StateSpaceProblem<T>& given_;
  const TokenSpan span_;
  std::int64_t head_, column_, rows_, columns_, of_head_;
  T *rate_ = nullptr, *rest_ = nullptr, *write_ = nullptr, *read_ = nullptr;
};

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
