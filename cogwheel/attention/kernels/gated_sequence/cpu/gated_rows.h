// What the two directions of gated cells share: the rows of a task, rows of numbers that do not fill whole vectors, and
// the weight in panels. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Rows of one task: their states stay in the second-level cache.
constexpr std::int64_t most_rows = 128;

template <class T>
HWY_INLINE Vector<T> load_some(const T* from, std::int64_t count) {
  if (count >= Vector<T>::lanes) return Vector<T>::load(from);
  T some[Vector<T>::lanes] = {};
  std::copy_n(from, count, some);
  return Vector<T>::load(some);
}
template <class T>
HWY_INLINE void store_some(Vector<T> x, T* to, std::int64_t count) {
  if (count >= Vector<T>::lanes) return x.store(to);
  T some[Vector<T>::lanes];
  x.store(some);
  std::copy_n(some, count, to);
}

template <class T>
HWY_INLINE Vector<T> sigmoid(Vector<T> x) {
  const Vector<T> one(T(1));
  return one / (one + Vector<T>::exp(-x));
}

constexpr std::int64_t divided_up(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// The rows of a batch, dealt to tasks by length, so that tasks take equally long, and that those which have a token t
// are the first of a task.
class DealtRows {
 public:
  template <class T>
  DealtRows(const GatedProblem<T>& problem, int workers, std::int64_t* order, std::int64_t* lengths)
      : batch_(problem.batch), order_(order), lengths_(lengths) {
    tasks_ = std::max(std::min<std::int64_t>(workers, batch_), divided_up(batch_, most_rows));
    for (std::int64_t b = 0; b < batch_; ++b) {
      order_[b] = b;
      lengths_[b] = problem.lengths ? problem.lengths[b] : problem.tokens;
    }
    std::sort(order_, order_ + batch_, [this](std::int64_t a, std::int64_t b) {
      return lengths_[a] != lengths_[b] ? lengths_[a] > lengths_[b] : a < b;
    });
  }
  std::int64_t tasks() const { return tasks_; }
  std::int64_t rows(std::int64_t task) const { return divided_up(batch_ - task, tasks_); }
  // The batch entry of a task's row.
  std::int64_t entry(std::int64_t task, std::int64_t row) const { return order_[row * tasks_ + task]; }
  std::int64_t length(std::int64_t entry) const { return lengths_[entry]; }
  // How many rows of a task have this token.
  std::int64_t with_token(std::int64_t task, std::int64_t token) const {
    std::int64_t count = 0, end = rows(task);
    while (count < end) {
      const std::int64_t middle = (count + end) / 2;
      if (lengths_[entry(task, middle)] > token)
        count = middle + 1;
      else
        end = middle;
    }
    return count;
  }

 private:
  std::int64_t batch_, tasks_;
  std::int64_t *order_, *lengths_;
};

// U for forward: a panel has the rows of all gates of some units, transposed, so that a product gives all gates of a
// unit at once.
template <class T>
struct GatePanels {
  static constexpr std::int64_t lanes = Vector<T>::lanes;
  std::int64_t gates, width, units;  // units: vectors of them in a panel

  explicit GatePanels(GatedCell cell, std::int64_t given_width)
      : gates(gates_of(cell)), width(given_width), units(cell == GatedCell::lstm ? 1 : 4) {}
  std::int64_t vectors() const { return divided_up(width, lanes); }
  std::int64_t count() const { return divided_up(vectors(), units); }
  std::int64_t vectors_of(std::int64_t panel) const { return std::min(units, vectors() - panel * units); }
  std::int64_t elements() const { return width * gates * vectors() * lanes; }
  std::int64_t offset(std::int64_t panel) const { return panel * units * width * gates * lanes; }

  void pack(const T* weight, std::int64_t panel, T* to) const {
    constexpr std::int64_t together = 16;  // a cache line of floats of each row
    const std::int64_t columns = vectors_of(panel) * gates * lanes;
    for (std::int64_t first = 0; first < width; first += together) {
      const std::int64_t end = std::min(width, first + together);
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t vector = column / (gates * lanes), gate = column / lanes % gates;
        const std::int64_t unit = (panel * units + vector) * lanes + column % lanes;
        const T* from = weight + (gate * width + unit) * width;
        for (std::int64_t k = first; k < end; ++k) to[k * columns + column] = unit < width ? from[k] : T(0);
      }
    }
  }
};

// U for backward: columns of a tile's width beside each other.
template <class T>
struct ColumnPanels {
  static constexpr std::int64_t lanes = Vector<T>::lanes, units = 4;
  std::int64_t rows, width;

  explicit ColumnPanels(GatedCell cell, std::int64_t given_width)
      : rows(gates_of(cell) * given_width), width(given_width) {}
  std::int64_t vectors() const { return divided_up(width, lanes); }
  std::int64_t count() const { return divided_up(vectors(), units); }
  std::int64_t vectors_of(std::int64_t panel) const { return std::min(units, vectors() - panel * units); }
  std::int64_t elements() const { return rows * vectors() * lanes; }
  std::int64_t offset(std::int64_t panel) const { return panel * units * lanes * rows; }

  void pack(const T* weight, std::int64_t panel, T* to) const {
    const std::int64_t columns = vectors_of(panel) * lanes, first = panel * units * lanes,
                       present = std::min(columns, width - first);
    for (std::int64_t row = 0; row < rows; ++row, to += columns) {
      std::copy_n(weight + row * width + first, present, to);
      std::fill_n(to + present, columns - present, T(0));
    }
  }
};

template <class T, class Panels>
void pack_panels(const Panels& panels, const T* weight, T* to, const Executor& executor) {
  executor.run(panels.count(), [&](std::int64_t panel, int) { panels.pack(weight, panel, to + panels.offset(panel)); });
}

// What both directions do around the rows of their tasks: the weight is packed, unless its product is another's part,
// and the rows are dealt. run(dealt, packed, task, cell) with the kind of cell as a constant.
template <class T, class Panels, class Run>
void deal_rows(const GatedProblem<T>& problem, const Panels& panels, bool packs, const Executor& executor,
               const Run& run) {
  T* packed = nullptr;
  std::int64_t *order = nullptr, *lengths = nullptr;
  const auto lay_out = [&](void* base) {
    WorkspaceLayout layout(base);
    packed = layout.take<T>(static_cast<std::size_t>(packs ? panels.elements() : 0));
    order = layout.take<std::int64_t>(static_cast<std::size_t>(problem.batch));
    lengths = layout.take<std::int64_t>(static_cast<std::size_t>(problem.batch));
    return layout.bytes();
  };
  lay_out(thread_workspace(Scratch::call, lay_out(nullptr)));
  if (packs) pack_panels(panels, problem.weight, packed, executor);
  const DealtRows dealt(problem, executor.workers(), order, lengths);
  executor.run(dealt.tasks(), [&](std::int64_t task, int) {
    if (problem.cell == GatedCell::lstm)
      run(dealt, packed, task, std::integral_constant<GatedCell, GatedCell::lstm>());
    else
      run(dealt, packed, task, std::integral_constant<GatedCell, GatedCell::gru>());
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
