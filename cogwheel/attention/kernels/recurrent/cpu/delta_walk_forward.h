// Outputs and the last state of a delta rule. A task is a head and a block of columns of its state, which stays in the
// first-level cache while the tokens pass. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/delta_walk.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T, Decay decay, int vectors>
class DeltaForwardColumns {
  using V = Vector<T>;
  static constexpr std::int64_t lanes = V::lanes, padded = vectors * lanes;

 public:
  DeltaForwardColumns(const DeltaForward<T>& problem, std::int64_t sequence, std::int64_t head, std::int64_t column)
      : problem_(problem),
        span_(problem.shape.span(sequence)),
        sequence_(sequence),
        head_(head),
        column_(column),
        rows_(problem.shape.key_width),
        padded_rows_(vectors_of(rows_, lanes) * lanes),
        columns_(std::min(padded, problem.shape.value_width - column)) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));
  }

  void run() {
    const std::int64_t width = problem_.shape.value_width,
                       matrix = (sequence_ * problem_.shape.heads + head_) * rows_ * width;
    load_columns(problem_.initial_state ? problem_.initial_state + matrix : nullptr, rows_, width, column_, columns_,
                 padded, state_);
    for (std::int64_t begin = 0; begin < span_.count; begin += delta_chunk) {
      const std::int64_t count = std::min(delta_chunk, span_.count - begin);
      decays_of<T, decay>(problem_, span_.batch, head_, span_.begin + begin, count, 0, rows_, padded_rows_, decays_);
      for (std::int64_t t = 0; t < count; ++t) {
        const T* met_decay = decays_ + t * (decay == Decay::rows ? padded_rows_ : 1);
        if (begin + t == 0)
          cross<false, true>(span_.begin, met_decay);
        else
          cross<true, true>(span_.begin + begin + t, met_decay);
      }
    }
    if (span_.count > 0) cross<true, false>(span_.begin + span_.count, nullptr);
    store_columns(state_, rows_, padded, width, column_, columns_, problem_.state + matrix);
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    state_ = take(rows_ * padded);
    decays_ = take(delta_chunk * padded_rows_);
    update_ = take(padded);
    recalled_ = take(padded);
    output_ = take(padded);
    return layout.bytes();
  }

  // From the token before `met` to it.
  template <bool leaves, bool meets>
  void cross(std::int64_t met, const T* met_decay) {
    ForwardCrossing<T> x{.left_update = update_, .output = output_, .met_decay = met_decay, .recalled = recalled_};
    if constexpr (leaves) {
      x.left_key = problem_.key.row(span_.batch, head_, met - 1);
      x.left_query = problem_.query.row(span_.batch, head_, met - 1);
    }
    if constexpr (meets) x.met_key = problem_.key.row(span_.batch, head_, met);
    cross_forward<T, decay, vectors, leaves, leaves, meets>(rows_, x, state_, state_);
    if constexpr (leaves) {
      T* output = problem_.output.row(span_.batch, head_, met - 1) + column_;
      for (std::int64_t c = 0; c < columns_; ++c) output[c] = problem_.scale * output_[c];
    }
    if constexpr (meets) {
      copy_padded(problem_.value.row(span_.batch, head_, met) + column_, columns_, padded, update_);
      const V beta(*problem_.beta.row(span_.batch, head_, met));
      for (std::int64_t c = 0; c < padded; c += lanes)
        (beta * (V::load(update_ + c) - V::load(recalled_ + c))).store(update_ + c);
    }
  }

  const DeltaForward<T>& problem_;
  const TokenSpan span_;
  std::int64_t sequence_, head_, column_, rows_, padded_rows_, columns_;
  T *state_ = nullptr, *decays_ = nullptr, *update_ = nullptr, *recalled_ = nullptr, *output_ = nullptr;
};

template <class T>
void delta_forward(const DeltaForward<T>& problem, const Executor& executor) {
  const RecurrentShape& shape = problem.shape;
  constexpr std::int64_t lanes = Vector<T>::lanes;
  const std::int64_t heads = shape.sequences * shape.heads;
  // Blocks may be narrower where that keeps more workers busy: a column is the same bits in any.
  std::int64_t block = delta_vectors * lanes;
  while (shape.tokens >= delta_chunk && block > lanes &&
         heads * vectors_of(shape.value_width, block) < executor.workers())
    block /= 2;
  const std::int64_t blocks = vectors_of(shape.value_width, block);
  for_decay(problem.transition, [&](auto decay) {
    executor.run(heads * blocks, [&](std::int64_t task, int) {
      const std::int64_t column = task % blocks * block, head = task / blocks % shape.heads;
      for_block(std::min(block, shape.value_width - column), lanes, [&](auto vectors) {
        DeltaForwardColumns<T, decay(), vectors()>(problem, task / blocks / shape.heads, head, column).run();
      });
    });
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
