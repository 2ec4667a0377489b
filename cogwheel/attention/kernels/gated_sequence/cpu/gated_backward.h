// Gradients. With p the sum under a gate, dh_t that of h_t through the output and the token after it:
//   LSTM: dc = dc_{t+1}∘f_{t+1} + dh∘o∘(1 − tanh²c);  dp_i = dc∘g∘i(1−i),  dp_f = dc∘c_{t−1}∘f(1−f),
//         dp_g = dc∘i∘(1−g²),  dp_o = dh∘tanh(c)∘o(1−o)
//   GRU:  dp_n = dh∘(1−z)∘(1−n²),  dp_z = dh∘(h_{t−1}−n)∘z(1−z),  dp_r = dp_n∘m∘r(1−r),  dm = dp_n∘r
//   dh_{t−1} = Uᵀ of these, and of a GRU dh∘z. That of U is one product over all tokens, which the caller makes.
// Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/gated_sequence/cpu/gated_rows.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T, GatedCell cell>
class BackwardRowsOfCell {
  using V = Vector<T>;
  static constexpr std::int64_t gates = gates_of(cell), lanes = V::lanes;

 public:
  BackwardRowsOfCell(const GatedBackward<T>& problem, const DealtRows& dealt, const ColumnPanels<T>& panels,
                     const T* packed, std::int64_t task)
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
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t from = dealt_.entry(task_, row) * width_;
      begin(problem_.hidden_gradient, from, of_hidden_ + row * padded_);
      begin(problem_.memory_gradient, from, of_memory_ + row * padded_);
    }
    for (std::int64_t step = 0; step < problem_.tokens; ++step) {
      const std::int64_t token = problem_.reverse ? step : problem_.tokens - 1 - step;
      const std::int64_t present = dealt_.with_token(task_, token);
      for (std::int64_t row = 0; row < present; ++row) differentiate(row, token);
      for (std::int64_t row = present; row < rows_; ++row) {
        const std::int64_t place = token * problem_.batch + dealt_.entry(task_, row);
        std::fill_n(problem_.x_gradient + place * gates * width_, gates * width_, T(0));
        if (problem_.product_gradient)
          std::fill_n(problem_.product_gradient + place * gates * width_, gates * width_, T(0));
      }
      if (!problem_.leaves_product && present > 0) pass_product(present);
    }
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t to = dealt_.entry(task_, row) * width_;
      if (problem_.initial_hidden_gradient)
        std::copy_n(of_hidden_ + row * padded_, width_, problem_.initial_hidden_gradient + to);
      if (problem_.initial_memory_gradient)
        std::copy_n(of_memory_ + row * padded_, width_, problem_.initial_memory_gradient + to);
    }
  }

 private:
  std::size_t lay_out(void* base) {
    WorkspaceLayout layout(base);
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    of_hidden_ = take(rows_ * padded_);
    of_memory_ = take(rows_ * padded_);
    of_products_ = take(rows_ * gates * width_);
    return layout.bytes();
  }
  void begin(const T* given, std::int64_t from, T* to) const {
    std::fill_n(to, padded_, T(0));
    if (given) std::copy_n(given + from, width_, to);
  }

  // dh of the tokens before those of the first `rows` rows. For a GRU it already holds dh∘z.
  void pass_product(std::int64_t rows) {
    for (std::int64_t panel = 0; panel < panels_.count(); ++panel) {
      const ProductOperands<T> operands{.a = of_products_,
                                        .a_row = gates * width_,
                                        .a_inner = 1,
                                        .b = packed_ + panels_.offset(panel),
                                        .b_row = panels_.vectors_of(panel) * lanes,
                                        .c = of_hidden_ + panel * panels_.units * lanes,
                                        .c_row = padded_};
      if constexpr (cell == GatedCell::lstm)
        product<T>(rows, panels_.vectors_of(panel), gates * width_, operands);
      else
        add_product<T>(rows, panels_.vectors_of(panel), gates * width_, operands);
    }
  }

  void differentiate(std::int64_t row, std::int64_t token) {
    const std::int64_t entry = dealt_.entry(task_, row), place = token * problem_.batch + entry;
    const bool is_first = token == (problem_.reverse ? dealt_.length(entry) - 1 : 0);
    const std::int64_t place_before = place + (problem_.reverse ? problem_.batch : -problem_.batch);
    // Of what a token reads of the one before it; null: 0.
    const T* const initial = cell == GatedCell::lstm ? problem_.memory : problem_.hidden;
    const T* const all = cell == GatedCell::lstm ? problem_.memories : problem_.output;
    const T* const before = !is_first ? all + place_before * width_ : initial ? initial + entry * width_ : nullptr;
    for (std::int64_t unit = 0; unit < width_; unit += lanes)
      differentiate_units(row, place, unit, before ? load_some(before + unit, width_ - unit) : V(T(0)));
  }

  HWY_INLINE void differentiate_units(std::int64_t row, std::int64_t place, std::int64_t unit, V before) {
    const std::int64_t count = width_ - unit;
    const V one(T(1));
    const auto saved = [&](std::int64_t which) {
      return load_some(problem_.gates + (place * saved_per_unit + which) * width_ + unit, count);
    };
    const auto to_x = [&](std::int64_t gate, V gradient) {
      store_some(gradient, problem_.x_gradient + (place * gates + gate) * width_ + unit, count);
    };
    const auto to_product = [&](std::int64_t gate, V gradient) {
      store_some(gradient, of_products_ + (row * gates + gate) * width_ + unit, count);
      if (problem_.product_gradient)
        store_some(gradient, problem_.product_gradient + (place * gates + gate) * width_ + unit, count);
    };
    const auto to_both = [&](std::int64_t gate, V gradient) { to_x(gate, gradient), to_product(gate, gradient); };
    T *const hidden = of_hidden_ + row * padded_ + unit, *const memory = of_memory_ + row * padded_ + unit;
    const V of_hidden = V::load(hidden) + load_some(problem_.output_gradient + place * width_ + unit, count);
    if constexpr (cell == GatedCell::lstm) {
      const V in = saved(0), forget = saved(1), candidate = saved(2), out = saved(3);
      const V seen = V::tanh(load_some(problem_.memories + place * width_ + unit, count));
      const V of_memory = V::fma(of_hidden * out, one - seen * seen, V::load(memory));
      to_both(0, of_memory * candidate * in * (one - in));
      to_both(1, of_memory * before * forget * (one - forget));
      to_both(2, of_memory * in * (one - candidate * candidate));
      to_both(3, of_hidden * seen * out * (one - out));
      (of_memory * forget).store(memory);
    } else {
      const V reset = saved(0), keep = saved(1), candidate = saved(2), of_state = saved(3);
      const V of_candidate = of_hidden * (one - keep) * (one - candidate * candidate);
      to_both(0, of_candidate * of_state * reset * (one - reset));
      to_both(1, of_hidden * (before - candidate) * keep * (one - keep));
      to_x(2, of_candidate);
      to_product(2, of_candidate * reset);
      (of_hidden * keep).store(hidden);
    }
  }

  const GatedBackward<T>& problem_;
  const DealtRows& dealt_;
  const ColumnPanels<T>& panels_;
  const T* packed_;
  std::int64_t task_, rows_, width_, padded_;
  T *of_hidden_, *of_memory_, *of_products_;
};

template <class T>
void gated_backward(const GatedBackward<T>& problem, const Executor& executor) {
  if (problem.batch == 0 || problem.width == 0) return;
  const ColumnPanels<T> panels(problem.cell, problem.width);
  deal_rows(problem, panels, !problem.leaves_product, executor,
            [&](const DealtRows& dealt, const T* packed, std::int64_t task, auto cell) {
              BackwardRowsOfCell<T, cell()>(problem, dealt, panels, packed, task).run();
            });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
