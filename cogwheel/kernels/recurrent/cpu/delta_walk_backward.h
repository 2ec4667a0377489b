// Gradients of a delta rule. With G_t that of S_t, q scaled:
//   G_t = q_t do_tᵀ + A_{t+1} ∘ G'_{t+1},   du_t = G_tᵀ k_t,   G'_t = G_t − k_t (β_t du_t)ᵀ, the gradient of S'_t
//   dq_t = S_t do_t,   dk_t = G_t u_t − S'_t (β_t du_t),   dv_t = β_t du_t,   dβ_t = du_t·e_t,   d log α_t = G'_t ∘
//   S'_t
// Each is the product as it stands and no difference of running sums, which would cancel.
//
// A block of columns passes the tokens by itself: forward, leaving S' at every `delta_chunk`-th token and the errors of
// all; then back, chunk by chunk, each of whose S' are made again from the first. Sums over columns are added block
// after block. Included inside the region of a target.
#pragma once
#include "cogwheel/kernels/recurrent/cpu/delta_walk.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Of `count` vectors one after another, the sums of each: lanes / count terms of the first, then of the second, …
template <int count, class T>
HWY_INLINE Vector<T> fold(const T* from) {
  using V = Vector<T>;
  if constexpr (count == 1) {
    return V::load(from);
  } else {
    const V low = fold<count / 2>(from), high = fold<count / 2>(from + count / 2 * V::lanes);
    const typename V::Tag tag;
    return hn::Add(hn::ConcatEven(tag, high.raw, low.raw), hn::ConcatOdd(tag, high.raw, low.raw));
  }
}

// The sums of `rows` vectors; both arrays are of a whole number of vectors.
template <class T>
HWY_NOINLINE void sums_of_rows(const T* from, std::int64_t rows, T* to) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for (std::int64_t row = 0; row < rows; row += lanes) fold<lanes>(from + row * lanes).store(to + row);
}

template <class T>
struct BackwardCrossing {
  // Of the token that is left: k, u, −β du, α by Decay, and S' or (`derives`) that of the token before and what it
  // wrote.
  const T *left_key = nullptr, *left_update = nullptr, *left_recalled = nullptr, *left_decay = nullptr,
          *left_state = nullptr;
  const T *key_before = nullptr, *update_before = nullptr;
  // Before their sum over lanes, dk [rows][lanes] and d log α: for Decay::rows alike, for Decay::scalar [lanes].
  T *key_gradients = nullptr, *decay_gradients = nullptr;
  // Of the token that is met: k, q, do and Gᵀk.
  const T *met_key = nullptr, *met_query = nullptr, *met_output = nullptr;
  T* update_gradient = nullptr;
};

// From G of the token that is left to G of the one that is met.
template <class T, Decay decay, int vectors, bool leaves, bool derives, bool meets>
HWY_NOINLINE void cross_backward(std::int64_t rows, const BackwardCrossing<T>& given, T* gradient) {
  const BackwardCrossing<T> x = given;  // not memory that a store through a T* might change
  using V = Vector<T>;
  V update[vectors], before[vectors], recalled[vectors], of_output[vectors], of_update[vectors];
  V multiplier, of_multiplier(T(0));
  if constexpr (leaves && decay == Decay::scalar) multiplier = V(*x.left_decay);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    if constexpr (leaves) {
      update[v] = V::load(x.left_update + v * V::lanes);
      recalled[v] = V::load(x.left_recalled + v * V::lanes);
    }
    if constexpr (derives) before[v] = V::load(x.update_before + v * V::lanes);
    if constexpr (meets) {
      of_output[v] = V::load(x.met_output + v * V::lanes);
      of_update[v] = V(T(0));
    }
  }
  for (std::int64_t row = 0; row < rows; ++row, gradient += vectors * V::lanes) {
    const T* state = leaves ? x.left_state + row * vectors * V::lanes : nullptr;
    V of_key(T(0)), of_decay(T(0)), left_key, key_before, met_query, met_key;
    if constexpr (derives) key_before = V(x.key_before[row]);
    if constexpr (leaves) left_key = V(x.left_key[row]);
    if constexpr (leaves && decay == Decay::rows) multiplier = V(x.left_decay[row]);
    if constexpr (meets) {
      met_query = V(x.met_query[row]);
      met_key = V(x.met_key[row]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      V g = V::load(gradient + v * V::lanes);
      if constexpr (leaves) {
        V s = V::load(state + v * V::lanes);
        if constexpr (derives) {
          s = V::fma(key_before, before[v], s);
          if constexpr (decay != Decay::none) s = multiplier * s;
        }
        of_key = V::fma(g, update[v], of_key);
        of_key = V::fma(s, recalled[v], of_key);
        g = V::fma(left_key, recalled[v], g);
        if constexpr (decay != Decay::none) {
          of_decay = V::fma(g, s, of_decay);
          g = multiplier * g;
        }
      }
      if constexpr (meets) {
        g = V::fma(met_query, of_output[v], g);
        of_update[v] = V::fma(met_key, g, of_update[v]);
      }
      g.store(gradient + v * V::lanes);
    }
    if constexpr (leaves) {
      of_key.store(x.key_gradients + row * V::lanes);
      if constexpr (decay == Decay::rows) of_decay.store(x.decay_gradients + row * V::lanes);
      if constexpr (decay == Decay::scalar) of_multiplier = of_multiplier + of_decay;
    }
  }
  if constexpr (leaves && decay == Decay::scalar) of_multiplier.store(x.decay_gradients);
  if constexpr (meets)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of_update[v].store(x.update_gradient + v * V::lanes);
}

// From S' of a token to S of the last of `tokens`, and with `meets` to S' of the next one. Arrays for each token, α by
// Decay of the one after it; dq of each before its sum over lanes [rows][lanes].
template <class T>
struct Replay {
  const T *key, *update, *output_gradient, *next_decay;
  T* query_gradients;
};

template <class T, Decay decay, int vectors, int tokens, bool meets>
HWY_NOINLINE void replay_tokens(std::int64_t rows, const Replay<T> (&x)[2], const T* from, T* to) {
  using V = Vector<T>;
  V update[tokens][vectors], of_output[tokens][vectors], multiplier[tokens];
#pragma GCC unroll 2
  for (int t = 0; t < tokens; ++t) {
    if constexpr (decay == Decay::scalar)
      if (meets || t + 1 < tokens) multiplier[t] = V(*x[t].next_decay);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      update[t][v] = V::load(x[t].update + v * V::lanes);
      of_output[t][v] = V::load(x[t].output_gradient + v * V::lanes);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row, from += vectors * V::lanes) {
    V s[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) s[v] = V::load(from + v * V::lanes);
#pragma GCC unroll 2
    for (int t = 0; t < tokens; ++t) {
      const V key(x[t].key[row]);
      V of_query(T(0));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        s[v] = V::fma(key, update[t][v], s[v]);
        of_query = V::fma(s[v], of_output[t][v], of_query);
      }
      of_query.store(x[t].query_gradients + row * V::lanes);
      if (decay == Decay::none || !(meets || t + 1 < tokens)) continue;
      if constexpr (decay == Decay::rows) multiplier[t] = V(x[t].next_decay[row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) s[v] = multiplier[t] * s[v];
    }
    if constexpr (meets)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) s[v].store(to + (row * vectors + v) * V::lanes);
  }
}

template <class T, Decay decay, int vectors>
class DeltaBackwardColumns {
  using V = Vector<T>;
  static constexpr std::int64_t lanes = V::lanes, padded = vectors * lanes;

 public:
  DeltaBackwardColumns(const DeltaBackward<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t column)
      : problem_(problem),
        span_(problem.shape.span(sequence)),
        sequence_(sequence),
        head_(head),
        column_(column),
        rows_(problem.shape.key_width),
        padded_rows_(vectors_of(rows_, lanes) * lanes),
        columns_(std::min(padded, problem.shape.value_width - column)),
        chunks_((span_.count + delta_chunk - 1) / delta_chunk) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));
  }

  void run() {
    const std::int64_t width = problem_.shape.value_width,
                       matrix = (sequence_ * problem_.shape.heads + head_) * rows_ * width;
    std::fill_n(recalled_, padded, T(0));
    std::fill_n(lane_sums_, 2 * padded_rows_ * lanes, T(0));
    std::fill_n(decay_sums_, padded_rows_ * lanes, T(0));
    load_columns(problem_.initial_state ? problem_.initial_state + matrix : nullptr, rows_, width, column_, columns_,
                 padded, state_);
    walk();
    load_columns(problem_.state_gradient ? problem_.state_gradient + matrix : nullptr, rows_, width, column_, columns_,
                 padded, state_);
    for (std::int64_t chunk = chunks_; chunk-- > 0;) {
      replay(chunk);
      walk_back();
    }
    if (problem_.initial_state_gradient)
      store_columns(state_, rows_, padded, width, column_, columns_, problem_.initial_state_gradient + matrix);
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    state_ = take(rows_ * padded);
    history_ = take((delta_chunk / 2 - 1) * rows_ * padded);
    lane_sums_ = take(2 * padded_rows_ * lanes);
    decay_sums_ = take(padded_rows_ * lanes);
    sums_ = take(padded_rows_);
    decays_ = take(delta_chunk * padded_rows_);
    updates_ = take(delta_chunk * padded);
    output_gradients_ = take(delta_chunk * padded);
    recalled_ = take(padded);
    update_gradient_ = take(padded);
    checkpoints_ = take(chunks_ * rows_ * padded);
    errors_ = take(span_.count * padded);
    return layout.bytes();
  }

  T* checkpoint(std::int64_t chunk) const { return checkpoints_ + chunk * rows_ * padded; }
  // S' of a token or the one before it: writing all takes longer than making half of them again.
  T* state_at(std::int64_t t) const { return t < 2 ? checkpoint(chunk_) : history_ + (t / 2 - 1) * rows_ * padded; }
  const T* decay_at(std::int64_t t) const { return decays_ + t * (decay == Decay::rows ? padded_rows_ : 1); }
  std::int64_t token(std::int64_t t) const { return span_.begin + begin_ + t; }
  T* error_at(std::int64_t t) const { return errors_ + (begin_ + t) * padded; }
  const T* key_at(std::int64_t t) const { return problem_.key.row(span_.batch, head_, token(t)); }
  T beta_at(std::int64_t t) const { return *problem_.beta.row(span_.batch, head_, token(t)); }

  void enter(std::int64_t chunk) {
    chunk_ = chunk;
    begin_ = chunk * delta_chunk;
    count_ = std::min(delta_chunk, span_.count - begin_);
    decays_of<T, decay>(problem_, span_.batch, head_, span_.begin + begin_, count_, 0, rows_, padded_rows_, decays_);
  }

  // To a gradient's row of the head, or its sum with the blocks of columns before this one.
  void put(const T* numbers, std::int64_t count, T* row) const {
    if (column_ == 0)
      std::copy_n(numbers, count, row);
    else
      for (std::int64_t i = 0; i < count; ++i) row[i] += numbers[i];
  }

  void walk() {
    const T* from = state_;
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      enter(chunk);
      for (std::int64_t t = 0; t < count_; ++t) {
        T* to = t == 0 ? checkpoint(chunk) : state_;
        ForwardCrossing<T> x{
            .left_update = updates_, .met_key = key_at(t), .met_decay = decay_at(t), .recalled = recalled_};
        if (begin_ + t == 0) {
          cross_forward<T, decay, vectors, false, false, true>(rows_, x, from, to);
        } else {
          x.left_key = key_at(t - 1);
          cross_forward<T, decay, vectors, true, false, true>(rows_, x, from, to);
        }
        from = to;
        const T* values = problem_.value.row(span_.batch, head_, token(t)) + column_;
        for (std::int64_t c = 0; c < columns_; ++c) error_at(t)[c] = values[c] - recalled_[c];
        std::fill(error_at(t) + columns_, error_at(t) + padded, T(0));
        for (std::int64_t c = 0; c < padded; ++c) updates_[c] = beta_at(t) * error_at(t)[c];
      }
    }
  }

  // The chunk's S' and updates, and dq.
  void replay(std::int64_t chunk) {
    enter(chunk);
    for (std::int64_t t = 0; t < count_; ++t) {
      T *update = updates_ + t * padded, *output_gradient = output_gradients_ + t * padded;
      for (std::int64_t c = 0; c < padded; ++c) update[c] = beta_at(t) * error_at(t)[c];
      copy_padded(problem_.output_gradient.row(span_.batch, head_, token(t)) + column_, columns_, padded,
                  output_gradient);
      for (std::int64_t c = 0; c < padded; ++c) output_gradient[c] *= problem_.scale;
    }
    std::int64_t t = 0;
    for (; t + 2 < count_; t += 2) replay_from<2, true>(t);
    if (t + 2 == count_)
      replay_from<2, false>(t);
    else
      replay_from<1, false>(t);
  }

  template <int tokens, bool meets>
  void replay_from(std::int64_t t) {
    Replay<T> x[2] = {};
    for (int i = 0; i < tokens; ++i)
      x[i] = {.key = key_at(t + i),
              .update = updates_ + (t + i) * padded,
              .output_gradient = output_gradients_ + (t + i) * padded,
              .next_decay = t + i + 1 < count_ ? decay_at(t + i + 1) : nullptr,
              .query_gradients = lane_sums_ + i * padded_rows_ * lanes};
    replay_tokens<T, decay, vectors, tokens, meets>(rows_, x, state_at(t), meets ? state_at(t + 2) : nullptr);
    for (int i = 0; i < tokens; ++i) {
      sums_of_rows(x[i].query_gradients, rows_, sums_);
      put(sums_, rows_, problem_.query_gradient.row(span_.batch, head_, token(t + i)));
    }
  }

  void walk_back() {
    cross_back<false, false, true>(count_ - 1);
    for (std::int64_t t = count_ - 1; t-- > 0;)
      if (t % 2 == 0)
        cross_back<true, true, true>(t);
      else
        cross_back<true, false, true>(t);
    cross_back<true, false, false>(-1);
  }

  // From the chunk's token after `met` to it; `derives`: that token's S' is made from the one before it.
  template <bool leaves, bool derives, bool meets>
  void cross_back(std::int64_t met) {
    const std::int64_t left = met + 1;
    BackwardCrossing<T> x{.left_recalled = recalled_,
                          .key_gradients = lane_sums_,
                          .decay_gradients = decay_sums_,
                          .update_gradient = update_gradient_};
    if constexpr (leaves) {
      x.left_key = key_at(left);
      x.left_update = updates_ + left * padded;
      x.left_decay = decay_at(left);
      x.left_state = state_at(left);
    }
    if constexpr (derives) {
      x.key_before = key_at(left - 1);
      x.update_before = updates_ + (left - 1) * padded;
    }
    if constexpr (meets) {
      x.met_key = key_at(met);
      x.met_query = problem_.query.row(span_.batch, head_, token(met));
      x.met_output = output_gradients_ + met * padded;
    }
    cross_backward<T, decay, vectors, leaves, derives, meets>(rows_, x, state_);
    if constexpr (leaves) {
      sums_of_rows(lane_sums_, rows_, sums_);
      put(sums_, rows_, problem_.key_gradient.row(span_.batch, head_, token(left)));
      if constexpr (decay == Decay::rows) {
        sums_of_rows(decay_sums_, rows_, sums_);
        put(sums_, rows_, problem_.gate_gradient.row(span_.batch, head_, token(left)));
      }
      if constexpr (decay == Decay::scalar) {
        const T sum = V::load(decay_sums_).sum();
        put(&sum, 1, problem_.gate_gradient.row(span_.batch, head_, token(left)));
      }
    }
    if constexpr (meets) {
      const T beta = beta_at(met), *error = error_at(met);
      V of_beta(T(0));
      for (int v = 0; v < vectors; ++v) {
        const V of_update = V::load(update_gradient_ + v * lanes);
        of_beta = V::fma(of_update, V::load(error + v * lanes), of_beta);
        (V(-beta) * of_update).store(recalled_ + v * lanes);
      }
      const T sum = of_beta.sum();
      put(&sum, 1, problem_.beta_gradient.row(span_.batch, head_, token(met)));
      T* values = problem_.value_gradient.row(span_.batch, head_, token(met)) + column_;
      for (std::int64_t c = 0; c < columns_; ++c) values[c] = -recalled_[c];
    }
  }

  const DeltaBackward<T>& problem_;
  const TokenSpan span_;
  std::int64_t sequence_, head_, column_, rows_, padded_rows_, columns_, chunks_;
  T *state_ = nullptr, *history_ = nullptr, *lane_sums_ = nullptr, *decay_sums_ = nullptr, *sums_ = nullptr,
    *decays_ = nullptr, *updates_ = nullptr, *output_gradients_ = nullptr, *recalled_ = nullptr,
    *update_gradient_ = nullptr, *checkpoints_ = nullptr, *errors_ = nullptr;
  std::int64_t chunk_ = 0, begin_ = 0, count_ = 0;
};

template <class T>
void delta_backward(const DeltaBackward<T>& problem, const Executor& executor) {
  const RecurrentShape& shape = problem.shape;
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for_decay(problem.transition, [&](auto decay) {
    executor.run(shape.sequences * shape.heads, [&](std::int64_t task, int) {
      for (std::int64_t column = 0; column < shape.value_width; column += delta_vectors * lanes)
        for_block(shape.value_width - column, lanes, [&](auto vectors) {
          DeltaBackwardColumns<T, decay(), vectors()>(problem, task / shape.heads, task % shape.heads, column).run();
        });
    });
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
