#include "cogwheel/ops/support/key_panels.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "cogwheel/attention/kernels/key_panels.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/plain_call.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t head_axis = 1, panel_axis = 2, pair_axis = 3, key_axis = 4, group_axis = 5;

// Keys of rows and of panels between which numbers move.
struct Moved {
  const at::Tensor &panels, &rows;
  std::int64_t first;  // that of the first row, among the keys in panels
};

// Copies between rows and panels, `Lane` being as wide as a group. A panel stays in the first-level cache, so that it
// matters little that one of the two is not read or written in order.
template <class Lane, bool to_panels>
void move_lanes(const Moved& moved) {
  const at::Tensor &panels = moved.panels, &rows = moved.rows;
  constexpr auto lane_bytes = static_cast<std::int64_t>(sizeof(Lane));
  const std::int64_t heads = rows.size(head_axis), keys = rows.size(2), groups = panels.size(pair_axis);
  const std::int64_t item = rows.element_size(), first_panel = moved.first / keys_of_panel;
  const std::int64_t end = moved.first + keys, touched = panels_of(end) - first_panel;
  auto* const in_panels = static_cast<std::byte*>(const_cast<void*>(panels.const_data_ptr()));
  auto* const in_rows = static_cast<std::byte*>(const_cast<void*>(rows.const_data_ptr()));
  const auto of_panel = [&](std::int64_t index, int) {
    const std::int64_t panel = first_panel + index % touched, head = index / touched % heads,
                       entry = index / touched / heads;
    const std::int64_t begin = std::max(panel * keys_of_panel, moved.first),
                       count = std::min((panel + 1) * keys_of_panel, end) - begin;
    std::byte* lanes =
        in_panels +
        item * (entry * panels.stride(0) + head * panels.stride(head_axis) + panel * panels.stride(panel_axis)) +
        begin % keys_of_panel * lane_bytes;
    std::byte* row = in_rows + item * (entry * rows.stride(0) + head * rows.stride(head_axis) +
                                       (begin - moved.first) * rows.stride(2));
    const std::int64_t row_bytes = item * rows.stride(2);
    for (std::int64_t g = 0; g < groups; ++g, lanes += keys_of_panel * lane_bytes, row += lane_bytes)
      for (std::int64_t j = 0; j < count; ++j) {
        Lane lane;
        std::memcpy(&lane, to_panels ? row + j * row_bytes : lanes + j * lane_bytes, sizeof(Lane));
        std::memcpy(to_panels ? lanes + j * lane_bytes : row + j * row_bytes, &lane, sizeof(Lane));
      }
  };
  constexpr std::int64_t worth_threads = 1 << 15;
  const std::int64_t tasks = rows.size(0) * heads * touched;
  if (rows.numel() < worth_threads)
    SerialExecutor().run(tasks, of_panel);
  else
    TorchExecutor().run(tasks, of_panel);
}

template <bool to_panels>
void move_on_cpu(const Moved& moved) {
  if (moved.rows.numel() == 0) return;
  switch (moved.panels.element_size() * moved.panels.size(group_axis)) {
    case 2:
      return move_lanes<std::uint16_t, to_panels>(moved);
    case 4:
      return move_lanes<std::uint32_t, to_panels>(moved);
    default:
      return move_lanes<std::uint64_t, to_panels>(moved);
  }
}

// [B, Hk, panels, 64, D / group, group], a view.
at::Tensor by_key(const at::Tensor& panels) {
  return panels.permute({0, head_axis, panel_axis, key_axis, pair_axis, group_axis});
}

// A copy [B, Hk, panels · 64, D] by operators that every device and transform has; in the order of its sizes, as
// read_keys gives it, because the order of a sum over a row may follow from strides.
at::Tensor all_rows(const at::Tensor& panels) { return by_key(panels).flatten(4, 5).flatten(2, 3).contiguous(); }

}  // namespace

std::vector<std::int64_t> sizes_of_panels(std::int64_t batch, std::int64_t heads, std::int64_t capacity,
                                          std::int64_t head_dim, at::ScalarType type) {
  const std::int64_t group = group_of_panels(type == at::kBFloat16, head_dim);
  return {batch, heads, panels_of(capacity), head_dim / group, keys_of_panel, group};
}

at::Tensor with_contiguous_panels(const at::Tensor& panels) {
  std::int64_t stride = 1;
  for (std::int64_t axis = group_axis; axis >= panel_axis; --axis) {
    if (panels.size(axis) > 1 && panels.stride(axis) != stride) return panels.contiguous();
    stride *= panels.size(axis);
  }
  return panels;
}

c10::SymInt head_dim_of(const at::Tensor& key) {
  return are_panels(key) ? key.sym_size(pair_axis) * key.sym_size(group_axis) : key.sym_size(3);
}

at::Tensor first_keys(const at::Tensor& key, const c10::SymInt& count) {
  if (!are_panels(key)) return key.narrow_symint(2, 0, count);
  return key.narrow_symint(panel_axis, 0, (count + (keys_of_panel - 1)) / keys_of_panel);
}

at::Tensor sizes_of_rows(const at::Tensor& panels, const c10::SymInt& count) {
  const c10::SymInt head_dim = head_dim_of(panels);
  return panels.new_empty_symint({1, 1, 1, head_dim})
      .expand_symint({panels.sym_size(0), panels.sym_size(head_axis), count, head_dim});
}

at::Tensor rows_of_panels(const at::Tensor& panels, const c10::SymInt& count) {
  if (is_plain_call({&panels})) return read_keys(panels, 0, count.expect_int());
  return all_rows(first_keys(panels, count)).narrow_symint(2, 0, count);
}

at::Tensor read_keys(const at::Tensor& key, std::int64_t first, std::int64_t count) {
  if (!are_panels(key)) return key.narrow(2, first, count).clone();
  if (!key.is_cpu()) return all_rows(key).narrow(2, first, count);
  const at::Tensor rows =
      at::empty({key.size(0), key.size(head_axis), count, head_dim_of(key).expect_int()}, key.options());
  move_on_cpu<false>({with_contiguous_panels(key), rows, first});
  return rows;
}

void write_keys(const at::Tensor& key, std::int64_t first, const at::Tensor& rows) {
  if (!are_panels(key)) {
    key.narrow(2, first, rows.size(2)).copy_(rows);
    return;
  }
  if (key.is_cpu()) return move_on_cpu<true>({key, with_contiguous_width(rows), first});
  const at::Tensor panels = by_key(key);
  const at::Tensor numbers = rows.unflatten(3, {key.size(pair_axis), key.size(group_axis)});
  for (std::int64_t done = 0, count; done < rows.size(2); done += count) {
    const std::int64_t place = (first + done) % keys_of_panel;
    count = std::min(keys_of_panel - place, rows.size(2) - done);
    panels.select(panel_axis, (first + done) / keys_of_panel)
        .narrow(2, place, count)
        .copy_(numbers.narrow(2, done, count));
  }
}

}  // namespace cogwheel::ops
