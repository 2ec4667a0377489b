// Outputs and the last state. Columns of the state are independent of each other, so a task is a head and a block of
// columns, which stays in the first-level cache while the tokens pass. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector_sums.h"
#include "cogwheel/attention/kernels/recurrent/cpu/token_walk.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Columns of a block, in vectors, and tokens that pass a row of the state while it is in registers: the values and the
// sums of each token are tokens · vectors registers, of 16 or of 32.
constexpr int column_vectors = 2;
constexpr int tokens_at_once = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
// Tokens whose decays are made together.
constexpr std::int64_t forward_chunk = 32;

template <class T>
struct PassingTokens {
  const T *query, *key;  // rows of key_width
  std::int64_t query_row, key_row;
  const T* decay;  // by Decay
  std::int64_t decay_row;
  const T* values;         // [tokens][vectors · lanes]
  const T* column_decays;  // alike, where columns decay
  T* sums;                 // alike
};

// S ← A ∘ S + k vᵀ and Sᵀq for `tokens` tokens in turn. Each column is one chain of additions over the rows.
template <class T, Walk walk, int tokens, int vectors>
HWY_NOINLINE void pass_tokens(std::int64_t rows, const PassingTokens<T>& x, T* state) {
  using V = Vector<T>;
  V value[tokens][vectors], sum[tokens][vectors];
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      value[t][v] = V::load(x.values + (t * vectors + v) * V::lanes);
      sum[t][v] = V(T(0));
    }
  for (std::int64_t row = 0; row < rows; ++row, state += vectors * V::lanes) {
    V s[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) s[v] = V::load(state + v * V::lanes);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) {
      const V key(x.key[t * x.key_row + row]), query(x.query[t * x.query_row + row]);
      V multiplier;
      if constexpr (walk.decay == Decay::scalar) multiplier = V(x.decay[t]);
      if constexpr (walk.decay == Decay::rows) multiplier = V(x.decay[t * x.decay_row + row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        if constexpr (walk.reads_before) sum[t][v] = V::fma(query, s[v], sum[t][v]);
        if constexpr (walk.decays_columns) s[v] = V::load(x.column_decays + (t * vectors + v) * V::lanes) * s[v];
        if constexpr (walk.decay != Decay::none) s[v] = multiplier * s[v];
        s[v] = V::fma(key, value[t][v], s[v]);
        if constexpr (!walk.reads_before) sum[t][v] = V::fma(query, s[v], sum[t][v]);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) s[v].store(state + v * V::lanes);
  }
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[t][v].store(x.sums + (t * vectors + v) * V::lanes);
}

// Without the one that counts tokens.
template <class T>
std::int64_t value_columns(const RecurrentProblem<T>& problem) {
  return problem.shape.value_width - (problem.counts ? 1 : 0);
}

template <class T, Walk walk, int vectors>
void walk_columns(const RecurrentForward<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t column) {
  const RecurrentShape& shape = problem.shape;
  const auto [batch, first_token, tokens] = shape.span(sequence);
  constexpr std::int64_t lanes = Vector<T>::lanes, padded = vectors * lanes;
  const std::int64_t rows = shape.key_width, columns = std::min(padded, value_columns(problem) - column);
  const std::int64_t padded_rows = vectors_of(rows, lanes) * lanes;
  T *state = nullptr, *decays = nullptr, *column_decays = nullptr, *values = nullptr, *sums = nullptr;
  const auto lay_out = [&](void* base) {
    WorkspaceLayout layout(base);
    state = layout.take<T>(static_cast<std::size_t>(rows * padded));
    decays = layout.take<T>(static_cast<std::size_t>(forward_chunk * std::max(padded_rows, lanes)));
    if constexpr (walk.decays_columns) column_decays = layout.take<T>(static_cast<std::size_t>(forward_chunk * padded));
    values = layout.take<T>(static_cast<std::size_t>(tokens_at_once * padded));
    sums = layout.take<T>(static_cast<std::size_t>(tokens_at_once * padded));
    return layout.bytes();
  };
  lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));

  const std::int64_t first = (sequence * shape.heads + head) * rows * shape.value_width + column;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* to = state + row * padded;
    const std::int64_t given = problem.initial_state ? columns : 0;
    copy_padded(problem.initial_state ? problem.initial_state + first + row * shape.value_width : to, given, padded,
                to);
  }
  for (std::int64_t begin = 0; begin < tokens; begin += forward_chunk) {
    const std::int64_t count = std::min(forward_chunk, tokens - begin);
    decays_of<T, walk.decay>(problem, batch, head, first_token + begin, count, 0, rows, padded_rows, decays);
    if constexpr (walk.decays_columns)
      column_decays_of(problem, batch, head, first_token + begin, count, column, columns, padded, column_decays);
    for (std::int64_t t = 0; t < count;) {
      const std::int64_t token = first_token + begin + t, passing = count - t >= tokens_at_once ? tokens_at_once : 1;
      for (std::int64_t i = 0; i < passing; ++i)
        copy_padded(problem.value.row(batch, head, token + i) + column, columns, padded, values + i * padded);
      const PassingTokens<T> x{.query = problem.query.row(batch, head, token),
                               .key = problem.key.row(batch, head, token),
                               .query_row = problem.query.row_stride(),
                               .key_row = problem.key.row_stride(),
                               .decay = decays + t * (walk.decay == Decay::rows ? padded_rows : 1),
                               .decay_row = padded_rows,
                               .values = values,
                               .column_decays = walk.decays_columns ? column_decays + t * padded : nullptr,
                               .sums = sums};
      if (passing == tokens_at_once)
        pass_tokens<T, walk, tokens_at_once, vectors>(rows, x, state);
      else
        pass_tokens<T, walk, 1, vectors>(rows, x, state);
      for (std::int64_t i = 0; i < passing; ++i) {
        T* output = problem.output.row(batch, head, token + i) + column;
        for (std::int64_t c = 0; c < columns; ++c) output[c] = problem.scale * sums[i * padded + c];
      }
      t += passing;
    }
  }
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(state + row * padded, columns, problem.state + first + row * shape.value_width);
}

// The column that counts tokens, whose rows are in the lanes: most of a vector of columns would be empty.
template <class T, Walk walk>
void walk_counts(const RecurrentForward<T>& problem, std::int64_t sequence, std::int64_t head) {
  using V = Vector<T>;
  const RecurrentShape& shape = problem.shape;
  const auto [batch, first_token, tokens] = shape.span(sequence);
  const std::int64_t rows = shape.key_width, padded = vectors_of(rows, V::lanes) * V::lanes,
                     column = shape.value_width - 1;
  T *state = nullptr, *decays = nullptr, *key = nullptr, *query = nullptr, *lane_sums = nullptr, *sums = nullptr;
  const auto lay_out = [&](void* base) {
    WorkspaceLayout layout(base);
    for (T** row : {&state, &key, &query}) *row = layout.take<T>(static_cast<std::size_t>(padded));
    for (T** numbers : {&decays, &sums}) *numbers = layout.take<T>(static_cast<std::size_t>(forward_chunk));
    lane_sums = layout.take<T>(static_cast<std::size_t>(forward_chunk * V::lanes));
    return layout.bytes();
  };
  lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));

  const std::int64_t first = (sequence * shape.heads + head) * rows * shape.value_width + column;
  std::fill_n(state, padded, T(0));
  for (std::int64_t row = 0; problem.initial_state && row < rows; ++row)
    state[row] = problem.initial_state[first + row * shape.value_width];
  for (std::int64_t begin = first_token; begin < first_token + tokens; begin += forward_chunk) {
    const std::int64_t count = std::min(forward_chunk, first_token + tokens - begin);
    decays_of<T, walk.decay>(problem, batch, head, begin, count, 0, rows, padded, decays);
    for (std::int64_t t = 0; t < count; ++t) {
      const T *of_key = problem.key.row(batch, head, begin + t), *of_query = problem.query.row(batch, head, begin + t);
      if (rows != padded) {
        copy_padded(of_key, rows, padded, key);
        copy_padded(of_query, rows, padded, query);
        of_key = key, of_query = query;
      }
      V decay, sum(T(0));
      if constexpr (walk.decay != Decay::none) decay = V(decays[t]);
      for (std::int64_t i = 0; i < padded; i += V::lanes) {
        V s = V::load(state + i);
        if constexpr (walk.decay != Decay::none) s = decay * s;
        s = s + V::load(of_key + i);
        s.store(state + i);
        sum = V::fma(V::load(of_query + i), s, sum);
      }
      sum.store(lane_sums + t * V::lanes);
    }
    sums_of_rows(lane_sums, count, sums);
    for (std::int64_t t = 0; t < count; ++t)
      problem.output.row(batch, head, begin + t)[column] = problem.scale * sums[t];
  }
  for (std::int64_t row = 0; row < rows; ++row) problem.state[first + row * shape.value_width] = state[row];
}

template <class T>
void walk_forward(const RecurrentForward<T>& problem, const Executor& executor) {
  const RecurrentShape& shape = problem.shape;
  constexpr std::int64_t lanes = Vector<T>::lanes;
  const std::int64_t vectors = vectors_of(value_columns(problem), lanes), blocks = vectors_of(vectors, column_vectors);
  const std::int64_t tasks = blocks + (problem.counts ? 1 : 0);  // of a head
  for_walk(problem, [&](auto walk) {
    executor.run(shape.sequences * shape.heads * tasks, [&](std::int64_t task, int) {
      const std::int64_t block = task % tasks, head = task / tasks % shape.heads;
      const std::int64_t sequence = task / tasks / shape.heads;
      const std::int64_t column = block * column_vectors * lanes;
      if constexpr (walk().decay != Decay::rows && !walk().decays_columns)
        if (block == blocks) return walk_counts<T, walk()>(problem, sequence, head);
      if (vectors - block * column_vectors >= column_vectors)
        walk_columns<T, walk(), column_vectors>(problem, sequence, head, column);
      else
        walk_columns<T, walk(), 1>(problem, sequence, head, column);
    });
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
