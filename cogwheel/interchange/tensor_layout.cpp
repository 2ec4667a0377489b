#include "cogwheel/interchange/tensor_layout.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "cogwheel/interchange/foreign_weights.h"

namespace cogwheel::interchange {
namespace {

// So many numbers that they are still in a core's cache when they are looked at.
constexpr std::int64_t piece_numbers = 1 << 16;

at::Tensor index_of(const Order& order) { return at::tensor(order, at::kLong); }

at::Tensor inverse_of(const Order& order) {
  Order inverse(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    inverse[static_cast<std::size_t>(order[place])] = static_cast<std::int64_t>(place);
  return index_of(inverse);
}

bool is_finite(const at::Tensor& numbers) {
  if (numbers.numel() == 0) return true;
  const auto [least, greatest] = numbers.aminmax();
  return std::isfinite(least.item<float>()) && std::isfinite(greatest.item<float>());
}

// Calls `each` with the first and the number of things, from several threads.
void for_each_piece(std::int64_t count, std::int64_t at_once,
                    const std::function<void(std::int64_t, std::int64_t)>& each) {
  const std::int64_t pieces = (count + at_once - 1) / at_once;
  at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    const torch::NoGradGuard no_gradient;
    for (std::int64_t piece = begin; piece < end; ++piece)
      each(piece * at_once, std::min(at_once, count - piece * at_once));
  });
}

// Their rows, piece by piece, to where they are in ours.
class Placing {
 public:
  Placing(const TensorPair& pair, const ForeignPart& part, at::Tensor target)
      : target_(std::move(target)), transposed_(pair.transposed) {
    if (!pair.columns.empty()) columns_ = transposed_ ? inverse_of(pair.columns) : index_of(pair.columns);
    if (!part.order.empty()) rows_ = transposed_ ? index_of(part.order) : inverse_of(part.order);
  }

  // `piece` holds rows `first` and on of theirs.
  void place(at::Tensor piece, std::int64_t first) const {
    // Of theirs, the rows are our columns where they are transposed.
    const at::Tensor &along = transposed_ ? columns_ : rows_, &within = transposed_ ? rows_ : columns_;
    if (within.defined()) piece = piece.index_select(1, within);
    const std::int64_t dimension = transposed_ ? 1 : 0, count = piece.size(0);
    if (transposed_) piece = piece.t().contiguous();
    if (along.defined())
      target_.index_copy_(dimension, along.narrow(0, first, count), piece);
    else
      target_.narrow(dimension, first, count).copy_(piece);
  }

 private:
  at::Tensor target_, rows_, columns_;
  bool transposed_;
};

}  // namespace

bool read_part(const ForeignTensor& theirs, const TensorPair& pair, const ForeignPart& part, std::int64_t first_row,
               const at::Tensor& ours) {
  const at::Tensor target = ours.view({pair.rows(), pair.row_numbers()}).narrow(0, first_row, part.rows);
  std::atomic<bool> finite = true;
  const auto read = [&](std::int64_t first, const at::Tensor& into) {
    theirs.file->read_float32(*theirs.entry, first, into);
    if (!is_finite(into)) finite = false;
  };
  if (!pair.transposed && pair.columns.empty() && part.order.empty()) {
    const at::Tensor flat = target.view(-1);
    for_each_piece(flat.numel(), piece_numbers,
                   [&](std::int64_t first, std::int64_t count) { read(first, flat.narrow(0, first, count)); });
    return finite;
  }
  const std::int64_t rows = target.size(pair.transposed ? 1 : 0), columns = target.size(pair.transposed ? 0 : 1);
  const Placing placing(pair, part, target);
  // Transposed, a row of theirs is a column of ours: so many at once that each line of memory is written once.
  const std::int64_t fewest = pair.transposed ? 64 : 1;
  for_each_piece(rows, std::max(fewest, piece_numbers / std::max<std::int64_t>(1, columns)),
                 [&](std::int64_t first, std::int64_t count) {
                   const at::Tensor piece = at::empty({count, columns});
                   read(first * columns, piece);
                   placing.place(piece, first);
                 });
  return finite;
}

at::Tensor written_part(const at::Tensor& ours, const at::Tensor& gain, const TensorPair& pair, const ForeignPart& part,
                        std::int64_t first_row) {
  const torch::NoGradGuard no_gradient;
  at::Tensor rows = ours.reshape({pair.rows(), pair.row_numbers()}).narrow(0, first_row, part.rows);
  if (gain.defined()) rows = rows * gain.repeat(pair.row_numbers() / gain.numel());
  if (!part.order.empty()) rows = rows.index_select(0, inverse_of(part.order));
  if (!pair.columns.empty()) rows = rows.index_select(1, inverse_of(pair.columns));
  if (pair.transposed) rows = rows.t();
  return rows.reshape(part.shape).contiguous();
}

bool same_numbers(const ForeignTensor& a, const ForeignTensor& b) {
  std::int64_t numbers = 1;
  for (const std::int64_t size : a.shape()) numbers *= size;
  std::atomic<bool> same = true;
  for_each_piece(numbers, piece_numbers, [&](std::int64_t first, std::int64_t count) {
    if (!same) return;
    const at::Tensor of_a = at::empty({count}), of_b = at::empty({count});
    a.file->read_float32(*a.entry, first, of_a);
    b.file->read_float32(*b.entry, first, of_b);
    if (!of_a.equal(of_b)) same = false;
  });
  return same;
}

}  // namespace cogwheel::interchange
