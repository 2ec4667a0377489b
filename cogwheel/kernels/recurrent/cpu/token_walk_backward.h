// Gradients. With G_t that of S_t, q scaled:
//   G_t = q_t do_tᵀ + A_{t+1} ∘ G_{t+1},   dq_t = S_t do_t,   dk_t = G_t v_t,   dv_t = G_tᵀ k_t,   dA_t = G_t ∘ S_{t−1}
// Where a token reads before it writes, G_t = q_{t+1} do_{t+1}ᵀ + A_{t+1} ∘ G_{t+1} and dq_t = S_{t−1} do_t.
// dA is the product as it stands and no difference of running sums, which would cancel.
//
// Rows of the state are independent of each other until dv adds them up, so a block of rows, transposed, passes the
// tokens by itself: forward, leaving a checkpoint every `backward_chunk` tokens; then back, chunk by chunk, each of
// whose states are made again from its checkpoint. Forward keeps nothing. Without a decay no state is needed twice.
// Included inside the region of a target.
#pragma once
#include "cogwheel/kernels/recurrent/cpu/token_walk.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

constexpr std::int64_t backward_chunk = 32;
// Rows of a block, in vectors: five arrays of them are held in registers, of 16 or of 32.
constexpr int row_vectors = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;

template <class T, Walk kind, int vectors>
class BackwardRows {
  using V = Vector<T>;
  static constexpr std::int64_t padded = vectors * V::lanes;
  static constexpr bool decays_rows = kind.decay != Decay::none, decays = decays_rows || kind.decays_columns;

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

  // Adds the gradient of a constant to `of_constant`.
  void run(T& of_constant) {
    load_transposed(problem_.initial_state, state_);
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      if constexpr (decays) {
        std::copy_n(state_, columns_ * padded, checkpoints_ + chunk * columns_ * padded);
        if (chunk + 1 == chunks_) break;
      }
      pack(chunk);
      for (std::int64_t t = 0; t < count_; ++t) walk<!decays>(t, nullptr);
    }
    load_transposed(problem_.state_gradient, gradient_);
    for (std::int64_t chunk = chunks_; chunk-- > 0;) {
      pack(chunk);
      if constexpr (decays) {
        std::copy_n(checkpoints_ + chunk * columns_ * padded, columns_ * padded, state_);
        for (std::int64_t t = 0; t < count_; ++t) walk<true>(t, history_ + t * columns_ * padded);
      }
      for (std::int64_t t = count_; t-- > 0;) walk_back(t, of_constant);
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
    multipliers_ = take(backward_chunk * padded);
    if constexpr (kind.decays_columns) column_multipliers_ = take(backward_chunk * padded_columns());
    if constexpr (decays) {
      history_ = take(backward_chunk * block);
      checkpoints_ = take(chunks_ * block);
    }
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

  void pack(std::int64_t chunk) {
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
  }
  HWY_INLINE V multiplier(std::int64_t t, int v) const {
    return kind.decay == Decay::rows ? V::load(multipliers_ + t * padded + v * V::lanes) : V(multipliers_[t]);
  }

  HWY_INLINE V column_multiplier(std::int64_t t, std::int64_t column) const {
    return V(column_multipliers_[t * padded_columns() + column]);
  }

  // One token forward; the states before it go to `before` unless that is null. With `reads`, also dq.
  template <bool reads>
  HWY_NOINLINE void walk(std::int64_t t, T* before) {
    const T *values = problem_.value.row(span_.batch, head_, begin_ + t),
            *output_gradients = reads ? problem_.output_gradient.row(span_.batch, head_, begin_ + t) : nullptr;
    V key[vectors], multiplier_of[vectors], of_query[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      key[v] = V::load(keys_ + t * padded + v * V::lanes);
      if constexpr (decays_rows) multiplier_of[v] = multiplier(t, v);
      of_query[v] = V(T(0));
    }
    for (std::int64_t column = 0; column < columns_; ++column) {
      T* state = state_ + column * padded;
      const V value(values[column]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        V s = V::load(state + v * V::lanes);
        if constexpr (reads && decays) s.store(before + column * padded + v * V::lanes);
        if constexpr (reads && kind.reads_before) of_query[v] = V::fma(s, V(output_gradients[column]), of_query[v]);
        if constexpr (kind.decays_columns) s = column_multiplier(t, column) * s;
        if constexpr (decays_rows) s = multiplier_of[v] * s;
        s = V::fma(key[v], value, s);
        s.store(state + v * V::lanes);
        if constexpr (reads && !kind.reads_before) of_query[v] = V::fma(s, V(output_gradients[column]), of_query[v]);
      }
    }
    if constexpr (reads)
      store_rows(of_query, V(problem_.scale), problem_.query_gradient.row(span_.batch, head_, begin_ + t));
  }

  // One token back.
  HWY_NOINLINE void walk_back(std::int64_t t, T& of_constant) {
    const T *values = problem_.value.row(span_.batch, head_, begin_ + t),
            *output_gradients = problem_.output_gradient.row(span_.batch, head_, begin_ + t);
    T* value_gradients = problem_.value_gradient.row(span_.batch, head_, begin_ + t);
    V query[vectors], key[vectors], multiplier_of[vectors], of_key[vectors], of_multiplier[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      query[v] = V::load(queries_ + t * padded + v * V::lanes);
      key[v] = V::load(keys_ + t * padded + v * V::lanes);
      if constexpr (decays_rows) multiplier_of[v] = multiplier(t, v);
      of_key[v] = of_multiplier[v] = V(T(0));
    }
    for (std::int64_t column = 0; column < columns_; ++column) {
      T* gradient = gradient_ + column * padded;
      const V value(values[column]), output_gradient(output_gradients[column]);
      V of_value(T(0)), of_column(T(0)), multiplier_of_column;
      if constexpr (kind.decays_columns) multiplier_of_column = column_multiplier(t, column);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        V g = V::load(gradient + v * V::lanes);
        if constexpr (!kind.reads_before) g = V::fma(query[v], output_gradient, g);
        of_key[v] = V::fma(g, value, of_key[v]);
        of_value = V::fma(g, key[v], of_value);
        if constexpr (decays) {
          const V before = V::load(history_ + (t * columns_ + column) * padded + v * V::lanes);
          if constexpr (kind.decays_columns) g = multiplier_of_column * g;
          if constexpr (decays_rows) {
            of_multiplier[v] = V::fma(g, before, of_multiplier[v]);
            g = multiplier_of[v] * g;
          }
          if constexpr (kind.decays_columns) of_column = V::fma(g, before, of_column);
        }
        if constexpr (kind.reads_before) g = V::fma(query[v], output_gradient, g);
        g.store(gradient + v * V::lanes);
      }
      if constexpr (kind.decays_columns) {
        T& to = problem_.value_gate_gradient.row(span_.batch, head_, begin_ + t)[column];
        to = first_row_ == 0 ? of_column.sum() : to + of_column.sum();
      }
      const T sum = of_value.sum();
      value_gradients[column] = first_row_ == 0 ? sum : value_gradients[column] + sum;
    }
    store_rows(of_key, V(T(1)), problem_.key_gradient.row(span_.batch, head_, begin_ + t));
    if constexpr (kind.decay == Decay::rows) {
      // Of log α: α·dA.
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) of_multiplier[v] = multiplier_of[v] * of_multiplier[v];
      store_rows(of_multiplier, V(T(1)), problem_.gate_gradient.row(span_.batch, head_, begin_ + t));
    }
    if constexpr (kind.decay == Decay::scalar) {
      V total(T(0));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) total = total + of_multiplier[v];
      if (problem_.transition == Transition::constant) {
        of_constant += total.sum();
      } else {
        T& to = *problem_.gate_gradient.row(span_.batch, head_, begin_ + t);
        const T sum = multipliers_[t] * total.sum();
        to = first_row_ == 0 ? sum : to + sum;
      }
    }
  }

  HWY_INLINE void store_rows(const V (&numbers)[vectors], V factor, T* row) const {
    T stored[padded];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) (factor * numbers[v]).store(stored + v * V::lanes);
    std::copy_n(stored, rows_, row + first_row_);
  }

  const RecurrentBackward<T>& problem_;
  const RecurrentShape& shape_;
  TokenSpan span_;
  std::int64_t sequence_, head_, first_row_, rows_, columns_, chunks_;
  T *state_ = nullptr, *gradient_ = nullptr, *queries_ = nullptr, *keys_ = nullptr, *multipliers_ = nullptr,
    *column_multipliers_ = nullptr, *history_ = nullptr, *checkpoints_ = nullptr;
  std::int64_t begin_ = 0, count_ = 0;
};

template <class T>
void walk_backward(const RecurrentBackward<T>& problem, const Executor& executor) {
  const RecurrentShape& shape = problem.shape;
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for_walk(problem, [&](auto walk) {
    executor.run(shape.sequences * shape.heads, [&](std::int64_t task, int) {
      const std::int64_t sequence = task / shape.heads, head = task % shape.heads;
      T of_constant = 0;
      for (std::int64_t row = 0; row < shape.key_width; row += row_vectors * lanes)
        if (shape.key_width - row > lanes)
          BackwardRows<T, walk(), row_vectors>(problem, sequence, head, row).run(of_constant);
        else
          BackwardRows<T, walk(), 1>(problem, sequence, head, row).run(of_constant);
      if (problem.transition == Transition::constant) *problem.gate_gradient.row(sequence, head, 0) = of_constant;
    });
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
