// Forward. A task walks over all tokens of its rows, whose states never meet those of others, so that threads wait for
// each other once a call and not once a token. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/gated_sequence/cpu/gated_rows.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T, GatedCell cell>
class ForwardRows {
  using V = Vector<T>;
  static constexpr std::int64_t gates = gates_of(cell), lanes = V::lanes;

 public:
  ForwardRows(const GatedForward<T>& problem, const DealtRows& dealt, const GatePanels<T>& panels, const T* packed,
              std::int64_t task)
      : problem_(problem),
        dealt_(dealt),
        panels_(panels),
        packed_(packed),
        task_(task),
        rows_(dealt.rows(task)),
        width_(problem.width),
        padded_(panels.vectors() * lanes) {
    lay_out(thread_workspace(Scratch::task, lay_out(nullptr)));
  }

  void run() {
    for (std::int64_t row = 0; row < rows_; ++row) begin(row);
    std::int64_t present = problem_.reverse ? 0 : rows_;
    for (std::int64_t step = 0; step < problem_.tokens; ++step) {
      const std::int64_t token = problem_.reverse ? problem_.tokens - 1 - step : step;
      const std::int64_t now = dealt_.with_token(task_, token);
      for (std::int64_t row = now; row < present; ++row) end(row);  // those that the walk leaves behind
      present = now;
      for (std::int64_t panel = 0; panel < panels_.count(); ++panel) pass(panel, token, present);
      for (std::int64_t row = present; row < rows_; ++row) skip(token, dealt_.entry(task_, row));
      std::swap(state_, next_);
    }
    for (std::int64_t row = 0; row < (problem_.reverse ? rows_ : present); ++row) end(row);
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    state_ = take(rows_ * padded_);
    next_ = take(rows_ * padded_);
    memory_ = take(rows_ * padded_);
    products_ = take(rows_ * panels_.units * gates * lanes);
    return layout.bytes();
  }

  // Both buffers of the state: in reverse, a row keeps its first state until its last token comes.
  void begin(std::int64_t row) {
    const std::int64_t from = dealt_.entry(task_, row) * width_;
    for (T* to : {state_ + row * padded_, next_ + row * padded_, memory_ + row * padded_}) {
      const T* given = to == memory_ + row * padded_ ? problem_.memory : problem_.hidden;
      std::fill_n(to, padded_, T(0));
      if (given) std::copy_n(given + from, width_, to);
    }
  }
  void end(std::int64_t row) {
    const std::int64_t to = dealt_.entry(task_, row) * width_;
    if (problem_.last_hidden) std::copy_n(state_ + row * padded_, width_, problem_.last_hidden + to);
    if (problem_.last_memory) std::copy_n(memory_ + row * padded_, width_, problem_.last_memory + to);
  }
  // A token of padding.
  void skip(std::int64_t token, std::int64_t entry) {
    const std::int64_t place = token * problem_.batch + entry;
    std::fill_n(problem_.output + place * width_, width_, T(0));
    if (!problem_.gates) return;
    std::fill_n(problem_.gates + place * saved_per_unit * width_, saved_per_unit * width_, T(0));
    if constexpr (cell == GatedCell::lstm) std::fill_n(problem_.memories + place * width_, width_, T(0));
  }

  // All gates of a panel's units, of the first `rows` rows.
  void pass(std::int64_t panel, std::int64_t token, std::int64_t rows) {
    const std::int64_t vectors = panels_.vectors_of(panel), columns = vectors * gates * lanes;
    if (!problem_.products && rows > 0)
      product<T>(rows, vectors * gates, width_,
                 {.a = state_,
                  .a_row = padded_,
                  .a_inner = 1,
                  .b = packed_ + panels_.offset(panel),
                  .b_row = columns,
                  .c = products_,
                  .c_row = columns});
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t entry = dealt_.entry(task_, row);
      for (std::int64_t v = 0; v < vectors; ++v) {
        const std::int64_t unit = (panel * panels_.units + v) * lanes;
        V of_state[gates];
#pragma GCC unroll 4
        for (std::int64_t gate = 0; gate < gates; ++gate) {
          of_state[gate] = problem_.products
                               ? load_some(problem_.products + (entry * gates + gate) * width_ + unit, width_ - unit)
                               : V::load(products_ + row * columns + (v * gates + gate) * lanes);
          if (problem_.bias)
            of_state[gate] = of_state[gate] + load_some(problem_.bias + gate * width_ + unit, width_ - unit);
        }
        update(row, token * problem_.batch + entry, unit, of_state);
      }
    }
  }

  // The new state of a vector of units.
  HWY_INLINE void update(std::int64_t row, std::int64_t place, std::int64_t unit, const V (&of_state)[gates]) {
    const std::int64_t count = width_ - unit;
    const auto x = [&](std::int64_t gate) {
      return load_some(problem_.x + (place * gates + gate) * width_ + unit, count);
    };
    const auto save = [&](std::int64_t which, V value) {
      if (problem_.gates) store_some(value, problem_.gates + (place * saved_per_unit + which) * width_ + unit, count);
    };
    V hidden;
    if constexpr (cell == GatedCell::lstm) {
      const V in = sigmoid<T>(x(0) + of_state[0]), forget = sigmoid<T>(x(1) + of_state[1]),
              candidate = V::tanh(x(2) + of_state[2]), out = sigmoid<T>(x(3) + of_state[3]);
      T* const kept = memory_ + row * padded_ + unit;
      const V memory = V::fma(forget, V::load(kept), in * candidate);
      memory.store(kept);
      hidden = out * V::tanh(memory);
      save(0, in), save(1, forget), save(2, candidate), save(3, out);
      if (problem_.memories) store_some(memory, problem_.memories + place * width_ + unit, count);
    } else {
      const V reset = sigmoid<T>(x(0) + of_state[0]), keep = sigmoid<T>(x(1) + of_state[1]),
              candidate = V::tanh(V::fma(reset, of_state[2], x(2)));
      hidden = V::fma(keep, V::load(state_ + row * padded_ + unit) - candidate, candidate);
      save(0, reset), save(1, keep), save(2, candidate), save(3, of_state[2]);
    }
    hidden.store(next_ + row * padded_ + unit);
    store_some(hidden, problem_.output + place * width_ + unit, count);
  }

  const GatedForward<T>& problem_;
  const DealtRows& dealt_;
  const GatePanels<T>& panels_;
  const T* packed_;
  std::int64_t task_, rows_, width_, padded_;
  T *state_, *next_, *memory_, *products_;
};

template <class T>
void gated_forward(const GatedForward<T>& problem, const Executor& executor) {
  if (problem.batch == 0 || problem.width == 0) return;
  const GatePanels<T> panels(problem.cell, problem.width);
  deal_rows(problem, panels, !problem.products, executor,
            [&](const DealtRows& dealt, const T* packed, std::int64_t task, auto cell) {
              ForwardRows<T, cell()>(problem, dealt, panels, packed, task).run();
            });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
