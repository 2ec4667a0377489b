// Outputs and the last state: a task is a sequence, a head and a block of columns. A row of the state is in registers
// while the tokens of a chunk pass; their sums stay in the first-level cache. Each sum is one chain over the rows,
// wherever the text was cut. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/state_space_block.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T, bool selective, int vectors>
class StateSpaceForwardBlock : StateSpaceBlock<T, selective, vectors> {
  using Block = StateSpaceBlock<T, selective, vectors>;
  using Block::padded;
  using typename Block::StateRow;
  using typename Block::V;
  static constexpr std::int64_t chunk = 32;

 public:
  StateSpaceForwardBlock(const StateSpaceForward<T>& problem, std::int64_t sequence, std::int64_t head,
                         std::int64_t column)
      : Block(problem, sequence, head, column), problem_(problem) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));
  }

  void run() {
    this->load_constants();
    this->load_state(problem_.initial_state, state_);
    for (std::int64_t begin = 0; begin < this->span_.count; begin += chunk) {
      const std::int64_t first = this->span_.begin + begin, count = std::min(chunk, this->span_.count - begin);
      this->load_tokens(first, count, written_, deltas_);
      this->fetch_tokens(begin + chunk, chunk);
      this->fetch(problem_.output, first, count);
      std::fill_n(sums_, count * padded, T(0));
      for (std::int64_t row = 0; row < this->rows_; ++row) pass_row(row, first, count);
      for (std::int64_t t = 0; t < count; ++t) store_output(first + t, sums_ + t * padded);
    }
    this->store_state(state_, problem_.state);
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t rows) { return layout.take<T>(static_cast<std::size_t>(rows * padded)); };
    this->take_constants(layout);
    state_ = take(this->rows_);
    written_ = take(chunk);
    sums_ = take(chunk);
    if constexpr (selective) deltas_ = take(chunk);
    return layout.bytes();
  }

  HWY_NOINLINE void pass_row(std::int64_t row, std::int64_t first, std::int64_t count) {
    const T *query = nullptr, *key = nullptr;
    if constexpr (selective) {
      query = problem_.query.row(this->span_.batch, this->head_, first) + row;
      key = problem_.key.row(this->span_.batch, this->head_, first) + row;
    }
    const std::int64_t query_row = problem_.query.row_stride(), key_row = problem_.key.row_stride();
    // Copies, because stores of numbers may be of pointers too as far as the compiler knows.
    const T *written = written_, *deltas = deltas_;
    T* sums = sums_;
    StateRow of = this->row_of(row, state_);
    for (std::int64_t t = 0; t < count; ++t, written += padded, sums += padded, deltas += selective ? padded : 0) {
      if constexpr (selective) {
        of.write[0] = V(key[t * key_row]);
        of.read[0] = V(query[t * query_row]);
      }
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int own = selective ? 0 : v;
        of.state[v] =
            this->decayed(of, v, this->multiplier(of, v, deltas), of.state[v], of.write[own] * this->at(written, v));
        V::fma(of.read[own], of.state[v], this->at(sums, v)).store(sums + v * V::lanes);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of.state[v].store(state_ + row * padded + v * V::lanes);
  }

  void store_output(std::int64_t token, T* sums) const {
    for (int v = 0; v < vectors; ++v) (V(problem_.scale) * this->at(sums, v)).store(sums + v * V::lanes);
    if (problem_.skip) {
      T skip[padded], value[padded];
      this->load(problem_.skip.of(this->head_), skip);
      this->load(problem_.value.row(this->span_.batch, this->head_, token), value);
      for (int v = 0; v < vectors; ++v)
        V::fma(this->at(skip, v), this->at(value, v), this->at(sums, v)).store(sums + v * V::lanes);
    }
    this->store(sums, problem_.output.row(this->span_.batch, this->head_, token));
  }

  const StateSpaceForward<T>& problem_;
  T *state_ = nullptr, *written_ = nullptr, *deltas_ = nullptr, *sums_ = nullptr;
};

template <class T>
void state_space_forward(const StateSpaceForward<T>& problem, const Executor& executor) {
  const ColumnBlocks cut(problem.shape.heads, problem.shape.value_width, Vector<T>::lanes);
  executor.run(problem.shape.sequences * problem.shape.heads * cut.blocks, [&](std::int64_t task, int) {
    const std::int64_t column = task % cut.blocks * cut.vectors * Vector<T>::lanes,
                       head = task / cut.blocks % problem.shape.heads,
                       sequence = task / cut.blocks / problem.shape.heads;
    for_vectors<T>(std::min(cut.vectors * Vector<T>::lanes, problem.shape.value_width - column), [&](auto vectors) {
      if (problem.selective)
        StateSpaceForwardBlock<T, true, vectors()>(problem, sequence, head, column).run();
      else
        StateSpaceForwardBlock<T, false, vectors()>(problem, sequence, head, column).run();
    });
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
