// Gradients where a decay is one number per token, or where there is none. By chunks of tokens, as products: with S the
// state before a chunk's first token, H the gradient of the state after its last, q scaled, a_i the product of the
// decays up to token i, b_j of those after token j, a that of all, and L_ij of those after j up to i (0 above the
// diagonal):
//   P = q kᵀ, dP = do vᵀ
//   dq_i = a_i S do_i + (L ∘ dP) k,   dk_j = b_j H v_j + (L ∘ dP)ᵀ q,   dv_j = b_j Hᵀ k_j + (L ∘ P)ᵀ do
//   S ← a S + Σ b_j k_j v_jᵀ,   H ← a H + Σ a_i q_i do_iᵀ
// The gradient of log α_t is the sum of what passes it, each term once and none taken away again, as in a difference of
// running sums, which would cancel:
//   Σ_{i≥t} q_i·(a_i S do_i) + Σ_{j<t} k_j·(b_j H v_j) + a S·H + Σ_{i≥t>j} (L ∘ P ∘ dP)_ij
// Decays are only multiplied, so nothing can overflow.
//
// States are kept transposed, [value width][key width]: products then have whole vectors of the key's width, and the
// value's may be any number, such as one more than a power of 2.
//
// A first walk leaves the state before every group of chunks. Then comes the walk back with H, which makes the states
// within a group again.
// Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector_sums.h"
#include "cogwheel/attention/kernels/recurrent/cpu/token_walk.h"
#include "cogwheel/attention/kernels/recurrent/cpu/triangle_product.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Longer chunks have larger triangles, shorter ones more states to keep.
constexpr std::int64_t chunk_tokens = 32;
// Chunks between two states that are kept: those between are made again, as the states of a whole text would leave the
// second-level cache.
constexpr std::int64_t group_chunks = 4;
constexpr std::int64_t groups_of(std::int64_t tokens) {
  return (tokens + group_chunks * chunk_tokens - 1) / (group_chunks * chunk_tokens);
}

template <class T, bool decays>
class BackwardChunks {
  using V = Vector<T>;
  static constexpr std::int64_t lanes = V::lanes, token_vectors = chunk_tokens / lanes;
  static_assert(chunk_tokens % lanes == 0);

 public:
  // With memory for so many states that are kept.
  BackwardChunks(const RecurrentBackward<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t kept)
      : problem_(problem),
        span_(problem.shape.span(sequence)),
        head_(head),
        matrix_((sequence * problem.shape.heads + head) * problem.shape.key_width * problem.shape.value_width),
        rows_(problem.shape.key_width),
        columns_(problem.shape.value_width),
        given_columns_(columns_ - (problem.counts ? 1 : 0)),
        row_vectors_(vectors_of(rows_, lanes)),
        column_vectors_(vectors_of(columns_, lanes)),
        padded_rows_(row_vectors_ * lanes),
        padded_columns_(column_vectors_ * lanes) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr, kept)), kept);
  }

  std::int64_t groups() const { return groups_of(span_.count); }
  std::int64_t state_size() const { return columns_ * padded_rows_; }

  // S before each group of chunks, [groups()][state_size()].
  void walk_states(T* states) {
    if (groups() == 0) return;
    load_transposed(problem_.initial_state, states);
    for (std::int64_t group = 0; group + 1 < groups(); ++group) {
      states += state_size();
      std::copy_n(states - state_size(), state_size(), states);
      for_chunks(group, [&](std::int64_t chunk) { advance(chunk, states); });
    }
  }

  // H after each group, and the gradient of the initial state.
  void walk_gradients(T* gradients) {
    T* from = groups() > 0 ? gradients + (groups() - 1) * state_size() : before_all_;
    load_transposed(problem_.state_gradient, from);
    for (std::int64_t group = groups(); group-- > 0;) {
      T* const to = group == 0 ? before_all_ : from - state_size();
      std::copy_n(from, state_size(), to);
      for_chunks_back(group, [&](std::int64_t chunk) {
        enter(chunk);
        load_queries();
        step(scaled_outputs_, queries_, to);
      });
      from = to;
    }
    store_first_gradient();
  }

  // Gradients of what a group's tokens have. H becomes that of the group before. → what is added to the gradient of γ.
  T walk_back(std::int64_t group, const T* state, T* gradient) {
    const T* before[group_chunks] = {state};
    std::int64_t made = 0;
    for_chunks(group, [&](std::int64_t chunk) {
      if (chunk + 1 == end_of(group)) return;
      T* const next = inside_ + made * state_size();
      std::copy_n(before[made], state_size(), next);
      advance(chunk, next);
      before[++made] = next;
    });
    T of_constant = 0;
    for_chunks_back(group, [&](std::int64_t chunk) {
      of_constant += differentiate(chunk, before[chunk - group * group_chunks], gradient);
      step(scaled_outputs_, queries_, gradient);
    });
    return of_constant;
  }

  // All groups one after the other, with groups() states kept. → the gradient of γ.
  T walk_all() {
    walk_states(kept_);
    load_transposed(problem_.state_gradient, before_all_);
    T of_constant = 0;
    for (std::int64_t group = groups(); group-- > 0;)
      of_constant += walk_back(group, kept_ + group * state_size(), before_all_);
    store_first_gradient();
    return of_constant;
  }

 private:
  // Gradients of what the chunk's tokens have. → what it adds to the gradient of γ.
  T differentiate(std::int64_t chunk, const T* state, const T* gradient) {
    enter(chunk);
    load_queries();
    load_rows(problem_.key, rows_, padded_rows_, T(1), keys_);
    load_values();
    const std::int64_t token_vectors_now = vectors_of(count_, lanes);
    transpose(keys_, padded_rows_, token_vectors_now, row_vectors_, keys_transposed_, chunk_tokens);
    transpose(values_, padded_columns_, token_vectors_now, column_vectors_, values_transposed_, chunk_tokens);
    product<T>(count_, token_vectors_now, rows_,
               {queries_, padded_rows_, 1, keys_transposed_, chunk_tokens, scores_, chunk_tokens});
    product<T>(count_, token_vectors_now, columns_,
               {outputs_, padded_columns_, 1, values_transposed_, chunk_tokens, score_gradients_, chunk_tokens});
    if constexpr (decays) decay_scores();

    // What lies outside the chunk, and what that adds to the gate's gradient.
    product<T>(count_, row_vectors_, columns_,
               {scaled_outputs_, padded_columns_, 1, state, padded_rows_, of_queries_, padded_rows_});
    product<T>(count_, row_vectors_, columns_,
               {scaled_values_, padded_columns_, 1, gradient, padded_rows_, of_keys_, padded_rows_});
    const T of_constant = decays ? differentiate_gates(state, gradient) : T(0);
    product<T>(columns_, token_vectors_now, rows_,
               {gradient, padded_rows_, 1, keys_transposed_, chunk_tokens, values_transposed_, chunk_tokens});
    transpose(values_transposed_, chunk_tokens, column_vectors_, token_vectors_now, of_values_, padded_columns_);
    scale_rows(of_values_, after_, of_values_);

    // What lies within. From the last row back, a lower triangle is an upper one.
    const std::int64_t last = count_ - 1;
    add_triangle_product<T>(count_, row_vectors_,
                            {score_gradients_, chunk_tokens, 1, keys_, padded_rows_, of_queries_, padded_rows_});
    add_triangle_product<T>(
        count_, row_vectors_,
        {score_gradients_ + last * (chunk_tokens + 1), -1, -chunk_tokens, queries_ + last * padded_rows_, -padded_rows_,
         of_keys_ + last * padded_rows_, -padded_rows_});
    add_triangle_product<T>(count_, column_vectors_,
                            {scores_ + last * (chunk_tokens + 1), -1, -chunk_tokens, outputs_ + last * padded_columns_,
                             -padded_columns_, of_values_ + last * padded_columns_, -padded_columns_});
    store_rows(of_queries_, rows_, padded_rows_, problem_.scale, problem_.query_gradient);
    store_rows(of_keys_, rows_, padded_rows_, T(1), problem_.key_gradient);
    store_rows(of_values_, given_columns_, padded_columns_, T(1), problem_.value_gradient);
    return of_constant;
  }

  void store_first_gradient() const {
    if (!problem_.initial_state_gradient) return;
    T* const to = problem_.initial_state_gradient + matrix_;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t column = 0; column < columns_; ++column)
        to[row * columns_ + column] = before_all_[column * padded_rows_ + row];
  }

  std::size_t lay_out(void* base, std::int64_t kept) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    for (T** rows : {&queries_, &keys_, &of_queries_, &of_keys_, &keys_transposed_})
      *rows = take(chunk_tokens * padded_rows_);
    for (T** rows : {&values_, &outputs_, &of_values_, &values_transposed_})
      *rows = take(chunk_tokens * padded_columns_);
    scaled_values_ = decays ? take(chunk_tokens * padded_columns_) : values_;
    scaled_outputs_ = decays ? take(chunk_tokens * padded_columns_) : outputs_;
    for (T** square : {&scores_, &score_gradients_, &decay_sums_}) *square = take(chunk_tokens * chunk_tokens);
    for (T** numbers : {&decays_, &up_to_, &after_, &of_decays_, &through_queries_, &through_keys_})
      *numbers = take(chunk_tokens);
    lane_sums_ = take(chunk_tokens * lanes);
    whole_ = take(columns_);
    before_all_ = take(state_size());
    inside_ = take((group_chunks - 1) * state_size());
    kept_ = take(kept * state_size());
    return layout.bytes();
  }

  std::int64_t end_of(std::int64_t group) const {
    return std::min((group + 1) * group_chunks, (span_.count + chunk_tokens - 1) / chunk_tokens);
  }
  template <class Run>
  void for_chunks(std::int64_t group, const Run& run) const {
    for (std::int64_t chunk = group * group_chunks; chunk < end_of(group); ++chunk) run(chunk);
  }
  template <class Run>
  void for_chunks_back(std::int64_t group, const Run& run) const {
    for (std::int64_t chunk = end_of(group); chunk-- > group * group_chunks;) run(chunk);
  }

  void advance(std::int64_t chunk, T* state) {
    enter(chunk);
    load_rows(problem_.key, rows_, padded_rows_, T(1), keys_);
    load_values();
    step(scaled_values_, keys_, state);
  }

  void enter(std::int64_t chunk) {
    begin_ = span_.begin + chunk * chunk_tokens;
    count_ = std::min(chunk_tokens, span_.count - chunk * chunk_tokens);
    if constexpr (decays) {
      decays_of<T, Decay::scalar>(problem_, span_.batch, head_, begin_, count_, 0, rows_, padded_rows_, decays_);
      T up_to = 1, after = 1;
      for (std::int64_t t = 0; t < count_; ++t) up_to_[t] = up_to *= decays_[t];
      for (std::int64_t t = count_; t-- > 0; after *= decays_[t]) after_[t] = after;
      std::fill_n(whole_, columns_, up_to);
    }
  }

  // Rows of the chunk's tokens, and zeros up to a whole number of vectors of tokens.
  void load_rows(const HeadsView<const T>& from, std::int64_t width, std::int64_t padded, T factor, T* to) const {
    const std::int64_t whole = width / lanes * lanes;
    for (std::int64_t t = 0; t < count_; ++t, to += padded) {
      const T* const row = from.row(span_.batch, head_, begin_ + t);
      for (std::int64_t i = 0; i < whole; i += lanes) (V(factor) * V::load(row + i)).store(to + i);
      for (std::int64_t i = whole; i < width; ++i) to[i] = factor * row[i];
      std::fill(to + width, to + padded, T(0));
    }
    std::fill_n(to, (vectors_of(count_, lanes) * lanes - count_) * padded, T(0));
  }
  void store_rows(const T* from, std::int64_t width, std::int64_t padded, T factor, const HeadsView<T>& to) const {
    const std::int64_t whole = width / lanes * lanes;
    for (std::int64_t t = 0; t < count_; ++t, from += padded) {
      T* const row = to.row(span_.batch, head_, begin_ + t);
      for (std::int64_t i = 0; i < whole; i += lanes) (V(factor) * V::load(from + i)).store(row + i);
      for (std::int64_t i = whole; i < width; ++i) row[i] = factor * from[i];
    }
  }
  void load_values() {
    load_rows(problem_.value, given_columns_, padded_columns_, T(1), values_);
    if (problem_.counts)
      for (std::int64_t t = 0; t < count_; ++t) values_[t * padded_columns_ + given_columns_] = T(1);
    scale_rows(values_, after_, scaled_values_);
  }
  // Rows of columns, each times a number of its token.
  void scale_rows(const T* from, const T* factors, T* to) const {
    if constexpr (decays)
      for (std::int64_t t = 0; t < count_; ++t) {
        const V factor(factors[t]);
        for (std::int64_t i = t * padded_columns_; i < (t + 1) * padded_columns_; i += lanes)
          (factor * V::load(from + i)).store(to + i);
      }
  }
  void load_queries() {
    load_rows(problem_.query, rows_, padded_rows_, problem_.scale, queries_);
    load_rows(problem_.output_gradient, columns_, padded_columns_, T(1), outputs_);
    scale_rows(outputs_, up_to_, scaled_outputs_);
  }
  void load_transposed(const T* from, T* to) const {
    std::fill_n(to, state_size(), T(0));
    if (!from) return;
    from += matrix_;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t column = 0; column < columns_; ++column)
        to[column * padded_rows_ + row] = from[row * columns_ + column];
  }

  // A state, or its gradient, over the chunk: each row times what the chunk leaves of it, and the tokens' products.
  void step(const T* of_columns, const T* of_rows, T* state) const {
    const ProductOperands<T> operands{of_columns, 1, padded_columns_, of_rows, padded_rows_, state, padded_rows_};
    if constexpr (decays)
      rescale_add_product<T>(columns_, row_vectors_, count_, operands, whole_);
    else
      add_product<T>(columns_, row_vectors_, count_, operands);
  }

  // P and dP times L, and Σ_{i≥t>j} (L ∘ P ∘ dP)_ij for each token t, before its sum over lanes.
  HWY_NOINLINE void decay_scores() {
    V weights[token_vectors];
#pragma GCC unroll 8
    for (int v = 0; v < token_vectors; ++v) weights[v] = V(T(0));
    for (std::int64_t i = 0; i < count_; ++i) {
      const V decay(decays_[i]);
#pragma GCC unroll 8
      for (int v = 0; v < token_vectors; ++v) {
        const std::int64_t at = i * chunk_tokens + v * lanes, column = i - v * lanes;
        weights[v] = V::select(V::lanes_within(column, column + 1), V(T(1)), decay * weights[v]);
        const V score = weights[v] * V::load(scores_ + at), gradient = V::load(score_gradients_ + at);
        score.store(scores_ + at);
        (weights[v] * gradient).store(score_gradients_ + at);
        (score * gradient).store(decay_sums_ + at);
      }
    }
    V sums[token_vectors];
#pragma GCC unroll 8
    for (int v = 0; v < token_vectors; ++v) sums[v] = V(T(0));
    for (std::int64_t t = count_; t-- > 0;) {
      V total(T(0));
#pragma GCC unroll 8
      for (int v = 0; v < token_vectors; ++v) {
        sums[v] = sums[v] + V::load(decay_sums_ + t * chunk_tokens + v * lanes);
        total = total + V::select_or_zero(V::lanes_within(0, t - v * lanes), sums[v]);
      }
      total.store(lane_sums_ + t * lanes);
    }
    sums_of_rows(lane_sums_, count_, of_decays_);
  }

  // Σ over a row of each token's products.
  void dots_of_rows(const T* left, const T* right, T* to) const {
    for (std::int64_t t = 0; t < count_; ++t) {
      V sum(T(0));
      for (std::int64_t i = t * padded_rows_; i < (t + 1) * padded_rows_; i += lanes)
        sum = V::fma(V::load(left + i), V::load(right + i), sum);
      sum.store(lane_sums_ + t * lanes);
    }
    sums_of_rows(lane_sums_, count_, to);
  }

  // What dq and dk have from outside the chunk, what passes it whole, and what decay_scores has left. Of γ: the sum
  // over the tokens.
  HWY_NOINLINE T differentiate_gates(const T* state, const T* gradient) {
    dots_of_rows(queries_, of_queries_, through_queries_);
    dots_of_rows(keys_, of_keys_, through_keys_);
    V sums[4] = {V(T(0)), V(T(0)), V(T(0)), V(T(0))};
    std::int64_t i = 0;
    for (; i + 4 * lanes <= state_size(); i += 4 * lanes)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        sums[v] = V::fma(V::load(state + i + v * lanes), V::load(gradient + i + v * lanes), sums[v]);
    for (; i < state_size(); i += lanes) sums[0] = V::fma(V::load(state + i), V::load(gradient + i), sums[0]);
    T sum = up_to_[count_ - 1] * ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum(), total = 0;
    for (std::int64_t t = 0; t < count_; ++t) {
      of_decays_[t] += sum;
      sum += through_keys_[t];
    }
    sum = 0;
    for (std::int64_t t = count_; t-- > 0;) {
      sum += through_queries_[t];
      of_decays_[t] += sum;
      total += of_decays_[t];
    }
    if (problem_.transition == Transition::constant) return total / decays_[0];
    for (std::int64_t t = 0; t < count_; ++t)
      *problem_.gate_gradient.row(span_.batch, head_, begin_ + t) = of_decays_[t];
    return T(0);
  }

  const RecurrentBackward<T>& problem_;
  const TokenSpan span_;
  std::int64_t head_, matrix_, rows_, columns_, given_columns_, row_vectors_, column_vectors_, padded_rows_,
      padded_columns_;
  // Of the chunk's tokens, rows of key or of value width, and [tokens][tokens].
  T *queries_ = nullptr, *keys_ = nullptr, *of_queries_ = nullptr, *of_keys_ = nullptr, *keys_transposed_ = nullptr,
    *values_ = nullptr, *outputs_ = nullptr, *of_values_ = nullptr, *values_transposed_ = nullptr,
    *scaled_values_ = nullptr, *scaled_outputs_ = nullptr, *scores_ = nullptr, *score_gradients_ = nullptr,
    *decay_sums_ = nullptr;
  // A number for each of them: α, a_i, b_j, d log α, and q·dq, k·dk of what lies outside.
  T *decays_ = nullptr, *up_to_ = nullptr, *after_ = nullptr, *of_decays_ = nullptr, *through_queries_ = nullptr,
    *through_keys_ = nullptr;
  T *lane_sums_ = nullptr, *whole_ = nullptr, *before_all_ = nullptr, *inside_ = nullptr, *kept_ = nullptr;
  std::int64_t begin_ = 0, count_ = 0;
};

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
