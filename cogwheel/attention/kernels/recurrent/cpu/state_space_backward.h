// Gradients. With G_t that of S_t, H_t = A_t ∘ G_t that of S_{t−1} as far as S_t brings it, u what a token writes (v or
// Δ_t ∘ v), and the queries scaled:
//   G_t = q_t do_tᵀ + H_{t+1},   dq_t = S_t do_t,   dk_t = G_t u_t,   du_t = G_tᵀ k_t
//   of A's exponent Δ∘a: E_t = H_t ∘ S_{t−1};   da = Σ_t Δ_t ∘ E_t,   dΔ_t = Σ_d a ∘ E_t + du_t ∘ v_t
// Fixed, db = Σ_t G_t ∘ 1v_tᵀ and dc = scale Σ_t S_t ∘ 1do_tᵀ. Nothing is a difference of running sums.
//
// A block of columns passes its tokens forward, leaving a checkpoint at every chunk, and goes back chunk by chunk, row
// by row of the state: a row's states and multipliers of one chunk are made again from its checkpoint, in the
// first-level cache, and used at once. Forward keeps nothing. Blocks add to dq and dk in the order of the columns:
// those of one task as they come, and those of several tasks for a head into numbers of their own, added up afterwards.
// Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/state_space_block.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T, bool selective, int vectors>
class StateSpaceBackwardBlock : StateSpaceBlock<T, selective, vectors> {
  using Block = StateSpaceBlock<T, selective, vectors>;
  using Block::padded;
  using Block::refined;
  using typename Block::StateRow;
  using typename Block::V;
  // Seven arrays of as many tokens stay in the first-level cache.
  static constexpr std::int64_t chunk = vectors == 4 ? 16 : 32;

 public:
  // dq and dk go to `queries` and `keys`: added there if `adds`.
  StateSpaceBackwardBlock(const StateSpaceBackward<T>& problem, std::int64_t sequence, std::int64_t head,
                          std::int64_t column, const HeadsView<T>& queries, const HeadsView<T>& keys, bool adds)
      : Block(problem, sequence, head, column),
        problem_(problem),
        of_queries_(queries),
        of_keys_(keys),
        adds_(adds),
        chunks_((this->span_.count + chunk - 1) / chunk) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));
  }

  void run() {
    this->load_constants();
    this->load_state(problem_.initial_state, checkpoints_);
    for (std::int64_t i = 0; i + 1 < chunks_; ++i) {
      begin(i);
      this->fetch_tokens((i + 1) * chunk, chunk);
      for (std::int64_t row = 0; row < this->rows_; ++row) pass_row(row, checkpoint(i), checkpoint(i + 1));
    }
    this->load_state(problem_.state_gradient, gradient_);
    const std::int64_t block = this->rows_ * padded;
    std::fill_n(of_rate_, block, T(0));
    std::fill_n(of_skip_, padded, T(0));
    if constexpr (!selective) {
      std::fill_n(of_write_, block, T(0));
      std::fill_n(of_read_, block, T(0));
    }
    for (std::int64_t i = chunks_; i-- > 0;) {
      begin(i);
      begin_back();
      this->fetch_tokens((i - 1) * chunk, chunk);
      if (i > 0) this->fetch(problem_.output_gradient, this->span_.begin + (i - 1) * chunk, chunk);
      this->fetch(problem_.value_gradient, first_, count_);
      if constexpr (selective) this->fetch(problem_.delta_gradient, first_, count_);
      for (std::int64_t row = 0; row < this->rows_; ++row) pass_row_back(row, checkpoint(i));
      for (std::int64_t t = 0; t < count_; ++t) finish_token(t);
      for (std::int64_t c = 0; c < padded; ++c) of_skip_[c] += of_chunk_skip_[c];
    }
    if (problem_.initial_state_gradient) this->store_state(gradient_, problem_.initial_state_gradient);
    store_constants();
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t rows) { return layout.take<T>(static_cast<std::size_t>(rows * padded)); };
    this->take_constants(layout);
    gradient_ = take(this->rows_);
    of_rate_ = take(this->rows_);
    of_skip_ = take(1);
    of_chunk_skip_ = take(1);
    written_ = take(chunk);
    output_gradients_ = take(chunk);
    of_written_ = take(chunk);
    before_ = take(chunk);
    if constexpr (selective) {
      deltas_ = take(chunk);
      of_deltas_ = take(chunk);
      multipliers_ = take(chunk);
      token_sums_ = layout.take<T>(static_cast<std::size_t>(chunk * V::lanes));
    } else {
      of_write_ = take(this->rows_);
      of_read_ = take(this->rows_);
    }
    checkpoints_ = take(std::max<std::int64_t>(chunks_, 1) * this->rows_);
    return layout.bytes();
  }
  T* checkpoint(std::int64_t index) const { return checkpoints_ + index * this->rows_ * padded; }

  void begin(std::int64_t index) {
    first_ = this->span_.begin + index * chunk;
    count_ = std::min(chunk, this->span_.count - index * chunk);
    this->load_tokens(first_, count_, written_, deltas_);
  }
  void begin_back() {
    for (std::int64_t t = 0; t < count_; ++t) {
      T* to = output_gradients_ + t * padded;
      this->load(problem_.output_gradient.row(this->span_.batch, this->head_, first_ + t), to);
      for (int v = 0; v < vectors; ++v) (V(problem_.scale) * this->at(to, v)).store(to + v * V::lanes);
    }
    std::fill_n(of_written_, count_ * padded, T(0));
    std::fill_n(of_chunk_skip_, padded, T(0));
    if constexpr (selective) std::fill_n(of_deltas_, count_ * padded, T(0));
  }

  HWY_NOINLINE void pass_row(std::int64_t row, const T* from, T* to) {
    const std::int64_t key_row = problem_.key.row_stride();
    const T* key = nullptr;
    if constexpr (selective) key = problem_.key.row(this->span_.batch, this->head_, first_) + row;
    // Copies, because stores of numbers may be of pointers too as far as the compiler knows.
    const T *written = written_, *deltas = deltas_;
    StateRow of = this->row_of(row, from);
    for (std::int64_t t = 0, count = count_; t < count; ++t, written += padded, deltas += selective ? padded : 0) {
      if constexpr (selective) of.write[0] = V(key[t * key_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        of.state[v] = this->decayed(of, v, this->multiplier(of, v, deltas), of.state[v],
                                    of.write[selective ? 0 : v] * this->at(written, v));
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of.state[v].store(to + row * padded + v * V::lanes);
  }

  // A row of the chunk's states forward again, then back.
  HWY_NOINLINE void pass_row_back(std::int64_t row, const T* from) {
    const std::int64_t query_row = problem_.query.row_stride(), key_row = problem_.key.row_stride(),
                       of_query_row = of_queries_.row_stride(), of_key_row = of_keys_.row_stride();
    const T *query = nullptr, *key = nullptr;
    T *of_query = nullptr, *of_key = nullptr;
    if constexpr (selective) {
      query = problem_.query.row(this->span_.batch, this->head_, first_) + row;
      key = problem_.key.row(this->span_.batch, this->head_, first_) + row;
      of_query = of_queries_.row(this->span_.batch, this->head_, first_) + row;
      of_key = of_keys_.row(this->span_.batch, this->head_, first_) + row;
    }
    // Copies, because stores of numbers may be of pointers too as far as the compiler knows.
    const T *const written_of = written_, *const deltas = deltas_, *const output_gradients = output_gradients_;
    T *const before = before_, *const multipliers = multipliers_, *const sums = token_sums_;
    T *const of_written = of_written_, *const of_deltas = of_deltas_;
    const std::int64_t count = count_;
    StateRow of = this->row_of(row, from);
    // Sums over the tokens of this chunk: one over thousands would lose what each adds to it.
    V gradient[vectors], of_rate[vectors], of_write[vectors], of_read[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      gradient[v] = V::load(gradient_ + row * padded + v * V::lanes);
      of_rate[v] = of_write[v] = of_read[v] = V(T(0));
    }
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t place = t * padded;
      if constexpr (selective) of.write[0] = V(key[t * key_row]);
      V sum(T(0));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const V multiplier = this->multiplier(of, v, selective ? deltas + place : nullptr),
                output_gradient = this->at(output_gradients + place, v);
        of.state[v].store(before + place + v * V::lanes);
        of.state[v] = this->decayed(of, v, multiplier, of.state[v],
                                    of.write[selective ? 0 : v] * this->at(written_of + place, v));
        if constexpr (selective) {
          multiplier.store(multipliers + place + v * V::lanes);
          sum = V::fma(of.state[v], output_gradient, sum);
        } else {
          of_read[v] = V::fma(of.state[v], output_gradient, of_read[v]);
        }
      }
      if constexpr (selective) sum.store(sums + t * V::lanes);
    }
    if constexpr (selective) give_sums(of_query, of_query_row);
    for (std::int64_t t = count; t-- > 0;) {
      const std::int64_t place = t * padded;
      if constexpr (selective) {
        of.read[0] = V(query[t * query_row]);
        of.write[0] = V(key[t * key_row]);
      }
      V sum(T(0));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int own = selective ? 0 : v;
        const V written = this->at(written_of + place, v);
        const V g = V::fma(of.read[own], this->at(output_gradients + place, v), gradient[v]);
        V::fma(g, of.write[own], this->at(of_written + place, v)).store(of_written + place + v * V::lanes);
        if constexpr (selective) {
          sum = V::fma(g, written, sum);
          gradient[v] = this->at(multipliers + place, v) * g;
          const V of_exponent = gradient[v] * this->at(before + place, v);
          of_rate[v] = V::fma(of_exponent, this->at(deltas + place, v), of_rate[v]);
          V::fma(of_exponent, of.rate[v], this->at(of_deltas + place, v)).store(of_deltas + place + v * V::lanes);
        } else {
          of_write[v] = V::fma(g, written, of_write[v]);
          gradient[v] = refined ? this->decayed(of, v, of.rate[v], g, V(T(0))) : of.rate[v] * g;
          of_rate[v] = V::fma(gradient[v], this->at(before + place, v), of_rate[v]);  // E: Δ and a come last
        }
      }
      if constexpr (selective) sum.store(sums + t * V::lanes);
    }
    if constexpr (selective) give_sums(of_key, of_key_row);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t place = row * padded + v * V::lanes;
      const auto add = [&](V sum, T* to) { (V::load(to + place) + sum).store(to + place); };
      gradient[v].store(gradient_ + place);
      add(of_rate[v], of_rate_);
      if constexpr (!selective) {
        add(of_write[v], of_write_);
        add(of_read[v], of_read_);
      }
    }
  }
  // The sum of each token's vector to the gradient of what it has of this row.
  HWY_INLINE void give_sums(T* to, std::int64_t stride) const {
    sums_of_rows(token_sums_, count_, token_sums_);
    for (std::int64_t t = 0; t < count_; ++t) to[t * stride] = adds_ ? to[t * stride] + token_sums_[t] : token_sums_[t];
  }

  // From the gradient of what the token wrote to those of v, Δ and skip.
  void finish_token(std::int64_t t) {
    const auto row = [&](const auto& view) { return view.row(this->span_.batch, this->head_, first_ + t); };
    T* of_value = of_written_ + t * padded;
    T value[padded];
    this->load(row(problem_.value), value);
    if constexpr (selective) {
      T* of_delta = of_deltas_ + t * padded;
      const V ln2 = V::constant(0.693147180559945309);
      for (int v = 0; v < vectors; ++v) {
        const V of_written = this->at(of_value, v);
        V::fma(ln2, this->at(of_delta, v), of_written * this->at(value, v)).store(of_delta + v * V::lanes);
        (of_written * this->at(deltas_ + t * padded, v)).store(of_value + v * V::lanes);
      }
      this->store(of_delta, row(problem_.delta_gradient));
    }
    if (problem_.skip) {
      T skip[padded], of_output[padded];
      this->load(problem_.skip.of(this->head_), skip);
      this->load(row(problem_.output_gradient), of_output);
      for (int v = 0; v < vectors; ++v) {
        const V given = this->at(of_output, v);
        V::fma(this->at(skip, v), given, this->at(of_value, v)).store(of_value + v * V::lanes);
        V::fma(this->at(value, v), given, this->at(of_chunk_skip_, v)).store(of_chunk_skip_ + v * V::lanes);
      }
    }
    this->store(of_value, row(problem_.value_gradient));
  }

  void store_constants() {
    if (problem_.skip) this->store(of_skip_, problem_.skip_gradient + this->of_head_ * problem_.shape.value_width);
    if constexpr (!selective) {
      this->store_state(of_write_, problem_.write_gradient);
      this->store_state(of_read_, problem_.read_gradient);
      T delta[padded], of_delta[padded] = {}, rate[padded];
      this->load(problem_.delta.row(this->span_.batch, this->head_, 0), delta);
      for (std::int64_t row = 0; row < this->rows_; ++row) {
        T* of_exponents = of_rate_ + row * padded;
        this->load(problem_.rate.of(this->head_) + row * problem_.shape.value_width, rate);
        for (std::int64_t c = 0; c < padded; ++c) {
          of_delta[c] += rate[c] * of_exponents[c];
          of_exponents[c] *= delta[c];
        }
      }
      this->store(of_delta, problem_.delta_gradient.row(this->of_head_ / problem_.shape.heads, this->head_, 0));
    }
    this->store_state(of_rate_, problem_.rate_gradient);
  }

  const StateSpaceBackward<T>& problem_;
  const HeadsView<T>&of_queries_, &of_keys_;
  bool adds_;
  std::int64_t chunks_, first_ = 0, count_ = 0;
  T *checkpoints_ = nullptr, *gradient_ = nullptr;  // of the state
  T *of_rate_ = nullptr, *of_write_ = nullptr, *of_read_ = nullptr, *of_skip_ = nullptr, *of_chunk_skip_ = nullptr;
  T *written_ = nullptr, *deltas_ = nullptr, *output_gradients_ = nullptr;  // of a chunk
  T *of_written_ = nullptr, *of_deltas_ = nullptr, *before_ = nullptr, *multipliers_ = nullptr, *token_sums_ = nullptr;
};

// Tasks of a head, each with columns of its own. Those after the first write dq and dk into numbers [parts − 1, 2,
// batch, heads, tokens, key_width], so parts depend on the shape of a head alone and are few where these would be
// large.
template <class T>
std::int64_t parts_of_a_head(const StateSpaceBackward<T>& problem, std::int64_t blocks) {
  constexpr std::int64_t tasks = 8;
  const std::int64_t heads = std::max<std::int64_t>(1, problem.shape.heads);
  const std::int64_t wanted = (tasks + heads - 1) / heads;
  const std::int64_t affordable =
      problem.selective ? 2 + problem.shape.value_width / (2 * problem.shape.key_width) : blocks;
  return std::min({blocks, wanted, affordable});
}

template <class T>
void state_space_backward(const StateSpaceBackward<T>& problem, const Executor& executor) {
  const ColumnBlocks cut(problem.shape.heads, problem.shape.value_width, Vector<T>::lanes);
  const std::int64_t parts = parts_of_a_head(problem, cut.blocks), width = problem.shape.key_width,
                     of_part = (problem.shape.first_tokens ? 1 : problem.shape.sequences) * problem.shape.heads *
                               problem.shape.tokens * width;
  T* partial = nullptr;
  if (problem.selective && parts > 1)
    partial = static_cast<T*>(
        thread_workspace(Scratch::call, static_cast<std::size_t>((parts - 1) * 2 * of_part) * sizeof(T)));
  const auto target = [&](std::int64_t part, int which) {
    if (part == 0) return which == 0 ? problem.query_gradient : problem.key_gradient;
    return HeadsView<T>(partial + ((part - 1) * 2 + which) * of_part,
                        problem.shape.heads * problem.shape.tokens * width, problem.shape.tokens * width, width);
  };
  executor.run(problem.shape.sequences * problem.shape.heads * parts, [&](std::int64_t task, int) {
    const std::int64_t part = task % parts, head = task / parts % problem.shape.heads,
                       sequence = task / parts / problem.shape.heads;
    const std::int64_t first = part * cut.blocks / parts, last = (part + 1) * cut.blocks / parts;
    const HeadsView<T> queries = target(part, 0), keys = target(part, 1);
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t column = block * cut.vectors * Vector<T>::lanes;
      for_vectors<T>(std::min(cut.vectors * Vector<T>::lanes, problem.shape.value_width - column), [&](auto vectors) {
        if (problem.selective)
          StateSpaceBackwardBlock<T, true, vectors()>(problem, sequence, head, column, queries, keys, block > first)
              .run();
        else
          StateSpaceBackwardBlock<T, false, vectors()>(problem, sequence, head, column, queries, keys, block > first)
              .run();
      });
    }
  });
  if (!partial) return;
  executor.run(problem.shape.sequences * problem.shape.heads, [&](std::int64_t task, int) {
    const auto span = problem.shape.span(task / problem.shape.heads);
    const std::int64_t head = task % problem.shape.heads;
    for (std::int64_t part = 1; part < parts; ++part)
      for (const int which : {0, 1})
        for (std::int64_t t = 0; t < span.count; ++t) {
          const T* from = target(part, which).row(span.batch, head, span.begin + t);
          T* to = target(0, which).row(span.batch, head, span.begin + t);
          for (std::int64_t i = 0; i < width; ++i) to[i] += from[i];
        }
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
