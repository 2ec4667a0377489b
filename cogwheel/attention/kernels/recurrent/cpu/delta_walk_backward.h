// Gradients of a delta rule. With G_t that of S_t, q scaled:
//   G_t = q_t do_tᵀ + A_{t+1} ∘ G'_{t+1},   du_t = G_tᵀ k_t,   G'_t = G_t − k_t (β_t du_t)ᵀ, the gradient of S'_t
//   dq_t = S_t do_t,   dk_t = G_t u_t − S'_t (β_t du_t),   dv_t = β_t du_t,   dβ_t = du_t·e_t
//   d log α_t = G'_t ∘ S'_t, summed over what α_t multiplies
// Each is the product as it stands and no difference of running sums, which would cancel.
//
// A block of columns passes the tokens by itself: forward, leaving S' at every `delta_chunk`-th token and the errors of
// all; then back, chunk by chunk, each of whose S' are made again from the first. Sums over columns are added block
// after block. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/delta_walk.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

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
        T* error = error_at(t);
        copy_padded(problem_.value.row(span_.batch, head_, token(t)) + column_, columns_, padded, error);
        const V beta(beta_at(t));
        for (std::int64_t c = 0; c < padded; c += lanes) {
          const V of_column = V::load(error + c) - V::load(recalled_ + c);
          of_column.store(error + c);
          (beta * of_column).store(updates_ + c);
        }
      }
    }
  }

  // The chunk's S' and updates, and dq.
  void replay(std::int64_t chunk) {
    enter(chunk);
    for (std::int64_t t = 0; t < count_; ++t) {
      const T* error = error_at(t);
      T *update = updates_ + t * padded, *output_gradient = output_gradients_ + t * padded;
      copy_padded(problem_.output_gradient.row(span_.batch, head_, token(t)) + column_, columns_, padded,
                  output_gradient);
      const V beta(beta_at(t)), scale(problem_.scale);
      for (std::int64_t c = 0; c < padded; c += lanes) {
        (beta * V::load(error + c)).store(update + c);
        (scale * V::load(output_gradient + c)).store(output_gradient + c);
      }
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
