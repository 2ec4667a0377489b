// Gradients. With G_t that of S_t, q scaled:
//   G_t = q_t do_tᵀ + A_{t+1} ∘ G_{t+1},   dq_t = S_t do_t,   dk_t = G_t v_t,   dv_t = G_tᵀ k_t,   dA_t = G_t ∘ S_{t−1}
// Where a token reads before it writes, G_t = q_{t+1} do_{t+1}ᵀ + A_{t+1} ∘ G_{t+1} and dq_t = S_{t−1} do_t.
// dA is the product as it stands and no difference of running sums, which would cancel.
//
// Rows of the state are independent of each other until dv adds them up, so a block of rows, transposed, passes the
// tokens by itself: forward, leaving a checkpoint every `backward_chunk` tokens; then back, chunk by chunk, each of
// whose states are made again from its checkpoint. Forward keeps nothing. Decays that are one number per token go by
// products (chunk_backward.h).
// Within a chunk, a few columns at a time pass all its tokens, so that their part of the state stays in registers, and
// the states that are made again in the first-level cache.
// Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/chunk_tasks.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

constexpr std::int64_t backward_chunk = 32;
// Rows of a block, in vectors, and columns that pass the tokens together: their product of registers holds the state,
// of 16 or of 32.
constexpr int row_vectors = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
constexpr int columns_at_once = 2;

template <class T, Walk kind, int vectors>
class BackwardRows {
  using V = Vector<T>;
  static constexpr std::int64_t padded = vectors * V::lanes;
  static constexpr bool decays_rows = kind.decay == Decay::rows;
  static_assert(kind.decay != Decay::scalar && (decays_rows || kind.decays_columns));

 public:
  BackwardRows(const RecurrentBackward<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t first_row)
      : problem_(problem),
        shape_(problem.shape),
        span_(shape_.span(sequence)),
        sequence_(sequence),
        head_(head),
        first_row_(first_row),
        rows_(std::min(padded, shape_.key_width - first_row)),
        columns_(shape_.value_width),
        chunks_((span_.count + backward_chunk - 1) / backward_chunk) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));
  }

  void run() {
    load_transposed(problem_.initial_state, state_);
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      std::copy_n(state_, columns_ * padded, checkpoints_ + chunk * columns_ * padded);
      if (chunk + 1 == chunks_) break;
      begin_chunk(chunk);
      for_columns([&](std::int64_t column, auto together) { forward<false, together()>(column); });
    }
    load_transposed(problem_.state_gradient, gradient_);
    for (std::int64_t chunk = chunks_; chunk-- > 0;) {
      begin_chunk(chunk);
      std::copy_n(checkpoints_ + chunk * columns_ * padded, columns_ * padded, state_);
      for_columns([&](std::int64_t column, auto together) {
        forward<true, together()>(column);
        back<together()>(column);
      });
      store_rows(of_queries_, problem_.scale, problem_.query_gradient);
      store_rows(of_keys_, T(1), problem_.key_gradient);
      if constexpr (decays_rows) store_gate_gradients();
    }
    if (problem_.initial_state_gradient) store_transposed();
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    const std::int64_t block = columns_ * padded;
    state_ = take(block);
    gradient_ = take(block);
    queries_ = take(backward_chunk * padded);
    keys_ = take(backward_chunk * padded);
    of_queries_ = take(backward_chunk * padded);
    of_keys_ = take(backward_chunk * padded);
    multipliers_ = take(backward_chunk * padded);
    if constexpr (decays_rows) of_multipliers_ = take(backward_chunk * padded);
    if constexpr (kind.decays_columns) column_multipliers_ = take(backward_chunk * padded_columns());
    history_ = take(backward_chunk * columns_at_once * padded);
    checkpoints_ = take(chunks_ * block);
    return layout.bytes();
  }

  std::int64_t padded_columns() const { return vectors_of(columns_, V::lanes) * V::lanes; }
  std::int64_t first_element() const {
    return ((sequence_ * shape_.heads + head_) * shape_.key_width + first_row_) * columns_;
  }
  void load_transposed(const T* from, T* to) const {
    std::fill_n(to, columns_ * padded, T(0));
    if (!from) return;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t column = 0; column < columns_; ++column)
        to[column * padded + row] = from[first_element() + row * columns_ + column];
  }
  void store_transposed() const {
    T* to = problem_.initial_state_gradient + first_element();
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t column = 0; column < columns_; ++column)
        to[row * columns_ + column] = gradient_[column * padded + row];
  }

  // run(column, together) for all columns, as many together as there are.
  template <class Run>
  void for_columns(const Run& run) const {
    std::int64_t column = 0;
    for (; column + columns_at_once <= columns_; column += columns_at_once)
      run(column, std::integral_constant<int, columns_at_once>());
    for (; column < columns_; ++column) run(column, std::integral_constant<int, 1>());
  }

  // Rows of query (scaled), key and decays of the chunk's tokens, and zeros where their gradients are added up.
  void begin_chunk(std::int64_t chunk) {
    begin_ = span_.begin + chunk * backward_chunk;
    count_ = std::min(backward_chunk, span_.count - chunk * backward_chunk);
    for (std::int64_t t = 0; t < count_; ++t) {
      copy_padded(problem_.query.row(span_.batch, head_, begin_ + t) + first_row_, rows_, padded,
                  queries_ + t * padded);
      copy_padded(problem_.key.row(span_.batch, head_, begin_ + t) + first_row_, rows_, padded, keys_ + t * padded);
      for (std::int64_t i = 0; i < rows_; ++i) queries_[t * padded + i] *= problem_.scale;
    }
    decays_of<T, kind.decay>(problem_, span_.batch, head_, begin_, count_, first_row_, rows_, padded, multipliers_);
    if constexpr (kind.decays_columns)
      column_decays_of(problem_, span_.batch, head_, begin_, count_, 0, columns_, padded_columns(),
                       column_multipliers_);
    std::fill_n(of_queries_, count_ * padded, T(0));
    std::fill_n(of_keys_, count_ * padded, T(0));
    if constexpr (decays_rows) std::fill_n(of_multipliers_, count_ * padded, T(0));
  }

  HWY_INLINE V multiplier(std::int64_t t, int v) const { return V::load(multipliers_ + t * padded + v * V::lanes); }
  HWY_INLINE V column_multiplier(std::int64_t t, std::int64_t column) const {
    return V(column_multipliers_[t * padded_columns() + column]);
  }
  template <class View>
  auto* first_row_of(const View& view) const {
    return view.row(span_.batch, head_, begin_);
  }

  // The chunk's tokens forward. With `reads`, adds to dq and leaves the states before each token.
  template <bool reads, int together>
  HWY_NOINLINE void forward(std::int64_t column) {
    const T* const values = first_row_of(problem_.value) + column;
    const T* const output_gradients = reads ? first_row_of(problem_.output_gradient) + column : nullptr;
    const std::int64_t value_row = problem_.value.row_stride(), gradient_row = problem_.output_gradient.row_stride();
    V s[together][vectors];
#pragma GCC unroll 4
    for (int c = 0; c < together; ++c)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) s[c][v] = V::load(state_ + (column + c) * padded + v * V::lanes);
    for (std::int64_t t = 0; t < count_; ++t) {
      V of_query[vectors];
      if constexpr (reads) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) of_query[v] = V::load(of_queries_ + t * padded + v * V::lanes);
      }
#pragma GCC unroll 4
      for (int c = 0; c < together; ++c) {
        const V value(values[t * value_row + c]),
            output_gradient(reads ? output_gradients[t * gradient_row + c] : T(0));
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          V& x = s[c][v];
          if constexpr (reads) x.store(history_ + (t * together + c) * padded + v * V::lanes);
          if constexpr (reads && kind.reads_before) of_query[v] = V::fma(x, output_gradient, of_query[v]);
          if constexpr (kind.decays_columns) x = column_multiplier(t, column + c) * x;
          if constexpr (decays_rows) x = multiplier(t, v) * x;
          x = V::fma(V::load(keys_ + t * padded + v * V::lanes), value, x);
          if constexpr (reads && !kind.reads_before) of_query[v] = V::fma(x, output_gradient, of_query[v]);
        }
      }
      if constexpr (reads) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) of_query[v].store(of_queries_ + t * padded + v * V::lanes);
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < together; ++c)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) s[c][v].store(state_ + (column + c) * padded + v * V::lanes);
  }

  // The chunk's tokens back: dv, and what these columns add to dk and dA.
  template <int together>
  HWY_NOINLINE void back(std::int64_t column) {
    const T* const values = first_row_of(problem_.value) + column;
    const T* const output_gradients = first_row_of(problem_.output_gradient) + column;
    const std::int64_t value_row = problem_.value.row_stride(), gradient_row = problem_.output_gradient.row_stride(),
                       of_value_row = problem_.value_gradient.row_stride();
    T* const value_gradients = first_row_of(problem_.value_gradient) + column;
    V g[together][vectors];
#pragma GCC unroll 4
    for (int c = 0; c < together; ++c)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) g[c][v] = V::load(gradient_ + (column + c) * padded + v * V::lanes);
    for (std::int64_t t = count_; t-- > 0;) {
      V of_value[together], of_column[together];
#pragma GCC unroll 4
      for (int c = 0; c < together; ++c) of_value[c] = of_column[c] = V(T(0));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const std::int64_t at = t * padded + v * V::lanes;
        const V query = V::load(queries_ + at), key = V::load(keys_ + at);
        V of_key = V::load(of_keys_ + at), of_multiplier, multiplier_of;
        if constexpr (decays_rows) of_multiplier = V::load(of_multipliers_ + at), multiplier_of = multiplier(t, v);
#pragma GCC unroll 4
        for (int c = 0; c < together; ++c) {
          V& x = g[c][v];
          const V output_gradient(output_gradients[t * gradient_row + c]);
          if constexpr (!kind.reads_before) x = V::fma(query, output_gradient, x);
          of_key = V::fma(x, V(values[t * value_row + c]), of_key);
          of_value[c] = V::fma(x, key, of_value[c]);
          const V before = V::load(history_ + (t * together + c) * padded + v * V::lanes);
          if constexpr (kind.decays_columns) x = column_multiplier(t, column + c) * x;
          if constexpr (decays_rows) {
            of_multiplier = V::fma(x, before, of_multiplier);
            x = multiplier_of * x;
          }
          if constexpr (kind.decays_columns) of_column[c] = V::fma(x, before, of_column[c]);
          if constexpr (kind.reads_before) x = V::fma(query, output_gradient, x);
        }
        of_key.store(of_keys_ + at);
        if constexpr (decays_rows) of_multiplier.store(of_multipliers_ + at);
      }
      // Blocks of rows follow one another, and add to what the first has written.
      const bool first = first_row_ == 0;
#pragma GCC unroll 4
      for (int c = 0; c < together; ++c) {
        T& to = value_gradients[t * of_value_row + c];
        to = first ? of_value[c].sum() : to + of_value[c].sum();
        if constexpr (kind.decays_columns) {
          T& to_gate = problem_.value_gate_gradient.row(span_.batch, head_, begin_ + t)[column + c];
          to_gate = first ? of_column[c].sum() : to_gate + of_column[c].sum();
        }
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < together; ++c)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) g[c][v].store(gradient_ + (column + c) * padded + v * V::lanes);
  }

  void store_rows(const T* rows, T factor, const HeadsView<T>& to) const {
    for (std::int64_t t = 0; t < count_; ++t) {
      T* row = to.row(span_.batch, head_, begin_ + t) + first_row_;
      for (std::int64_t i = 0; i < rows_; ++i) row[i] = factor * rows[t * padded + i];
    }
  }

  // Of log α: α·dA.
  void store_gate_gradients() {
    for (std::int64_t i = 0; i < count_ * padded; ++i) of_multipliers_[i] *= multipliers_[i];
    store_rows(of_multipliers_, T(1), problem_.gate_gradient);
  }

  const RecurrentBackward<T>& problem_;
  const RecurrentShape& shape_;
  TokenSpan span_;
  std::int64_t sequence_, head_, first_row_, rows_, columns_, chunks_;
  T *state_ = nullptr, *gradient_ = nullptr, *queries_ = nullptr, *keys_ = nullptr, *of_queries_ = nullptr,
    *of_keys_ = nullptr, *multipliers_ = nullptr, *of_multipliers_ = nullptr, *column_multipliers_ = nullptr,
    *history_ = nullptr, *checkpoints_ = nullptr;
  std::int64_t begin_ = 0, count_ = 0;
};

template <class T>
void walk_backward(const RecurrentBackward<T>& problem, const Executor& executor) {
  const RecurrentShape& shape = problem.shape;
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for_walk(problem, [&](auto walk) {
    constexpr bool by_rows = walk().decay == Decay::rows || walk().decays_columns;
    if constexpr (!by_rows)
      return backward_by_chunks<T, walk().decay != Decay::none>(problem, executor);
    else
      executor.run(shape.sequences * shape.heads, [&](std::int64_t task, int) {
        const std::int64_t sequence = task / shape.heads, head = task % shape.heads;
        for (std::int64_t row = 0; row < shape.key_width; row += row_vectors * lanes)
          if (shape.key_width - row > lanes)
            BackwardRows<T, walk(), row_vectors>(problem, sequence, head, row).run();
          else
            BackwardRows<T, walk(), 1>(problem, sequence, head, row).run();
      });
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
