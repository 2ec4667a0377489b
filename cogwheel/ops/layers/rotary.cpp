#include "cogwheel/ops/layers/rotary.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <limits>
#include <string>

#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

// The position of each token, the layout of planes and the direction of rotation.
struct Turn {
  OptionalTensor positions;
  std::int64_t first;
  bool halves, back;
};

void refuse_positions(const at::Tensor& table, const std::string& got) {
  refuse_argument("rotary: positions", "0 to " + size_text(table.sym_size(1) - 1), got);
}

void check_rotary(const at::Tensor& x, const at::Tensor& table, const Turn& turn) {
  if (table.dim() != 3 || table.sym_size(0) != 2)
    refuse_argument("rotary: table", "[2, positions, head_dim/2]", shape_text(table));
  if (x.dim() != 4 || x.sym_size(3) != 2 * table.sym_size(2))
    refuse_argument("rotary: x", "[B, N, heads, " + size_text(2 * table.sym_size(2)) + "]", shape_text(x));
  if (!at::isFloatingType(x.scalar_type()))
    refuse_argument("rotary: x dtype", "floating point", c10::toString(x.scalar_type()));
  if (table.scalar_type() != computed_type(x))
    refuse_argument("rotary: table dtype", c10::toString(computed_type(x)), c10::toString(table.scalar_type()));
  check_device_of_x("rotary: table", table, x);
  const c10::SymInt batch = x.sym_size(0), tokens = x.sym_size(1);
  if (!turn.positions) {
    if (turn.first < 0 || turn.first + tokens > table.sym_size(1))
      refuse_positions(table, std::to_string(turn.first) + " to " + size_text(turn.first + tokens - 1));
    return;
  }
  const at::Tensor& positions = *turn.positions;
  check_device_of_x("rotary: positions", positions, x);
  if (positions.scalar_type() != at::kLong)
    refuse_argument("rotary: positions dtype", "int64", c10::toString(positions.scalar_type()));
  if (!(positions.dim() == 1 && positions.sym_size(0) == tokens) &&
      !(positions.dim() == 2 && positions.sym_size(0) == batch && positions.sym_size(1) == tokens))
    refuse_argument("rotary: positions",
                    "[" + size_text(tokens) + "] or [" + size_text(batch) + ", " + size_text(tokens) + "]",
                    shape_text(positions));
}

// Plane p is that of x[p·step] and x[p·step + apart]. T is the compute dtype.
template <bool back, class T, class Element>
void turn_row(const Element* x, Element* turned, const T* cosine, const T* sine, std::int64_t planes, bool halves) {
  const std::int64_t step = halves ? 1 : 2, apart = halves ? planes : 1;
  for (std::int64_t p = 0; p < planes; ++p) {
    const T first = static_cast<T>(x[p * step]), second = static_cast<T>(x[p * step + apart]);
    const T c = cosine[p], s = back ? -sine[p] : sine[p];
    turned[p * step] = static_cast<Element>(first * c - second * s);
    turned[p * step + apart] = static_cast<Element>(first * s + second * c);
  }
}

template <bool back, class Element>
void turn_rows(const at::Tensor& x, const at::Tensor& table, const Turn& turn, const at::Tensor& turned) {
  using T = at::opmath_type<Element>;
  const std::int64_t tokens = x.size(1), heads = x.size(2), head_dim = x.size(3), planes = head_dim / 2;
  const Element* from = x.const_data_ptr<Element>();
  const T *cosines = table.const_data_ptr<T>(), *sines = cosines + table.size(1) * planes;
  const std::int64_t* positions = turn.positions ? turn.positions->const_data_ptr<std::int64_t>() : nullptr;
  const bool by_entry = positions && turn.positions->dim() == 2;
  Element* to = turned.mutable_data_ptr<Element>();
  at::parallel_for(0, x.size(0) * tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t token = row % tokens;
      const std::int64_t position = positions ? positions[by_entry ? row : token] : turn.first + token;
      for (std::int64_t head = 0; head < heads; ++head)
        turn_row<back>(from + row / tokens * x.stride(0) + token * x.stride(1) + head * x.stride(2),
                       to + (row * heads + head) * head_dim, cosines + position * planes, sines + position * planes,
                       planes, turn.halves);
    }
  });
}

void check_positions(const at::Tensor& positions, const at::Tensor& table) {
  const std::int64_t* each = positions.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    if (each[i] < 0 || each[i] >= table.size(1)) refuse_positions(table, std::to_string(each[i]));
}

at::Tensor empty_turned(const at::Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }

at::Tensor rotary_cpu(const at::Tensor& given, const at::Tensor& given_table, const OptionalTensor& positions,
                      std::int64_t first, bool halves, bool back) {
  Turn turn{positions, first, halves, back};
  check_rotary(given, given_table, turn);
  const at::Tensor x = with_contiguous_width(given), table = given_table.contiguous(), turned = empty_turned(x);
  if (turn.positions) {
    turn.positions = turn.positions->contiguous();
    check_positions(*turn.positions, table);
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "cogwheel::rotary", [&] {
    back ? turn_rows<true, scalar_t>(x, table, turn, turned) : turn_rows<false, scalar_t>(x, table, turn, turned);
  });
  return turned;
}

at::Tensor rotary_meta(const at::Tensor& x, const at::Tensor& table, const OptionalTensor& positions,
                       std::int64_t first, bool halves, bool back) {
  check_rotary(x, table, {positions, first, halves, back});
  return empty_turned(x);
}

// [2, N, head_dim/2], or [2, B, N, head_dim/2].
at::Tensor angles_of(const at::Tensor& x, const at::Tensor& table, const Turn& turn) {
  if (!turn.positions) return table.slice_symint(1, turn.first, turn.first + x.sym_size(1));
  const at::Tensor &positions = *turn.positions, known = positions.ge(0).__and__(positions.lt(table.sym_size(1)));
  std::vector<c10::SymInt> sizes{2};
  for (const c10::SymInt& size : positions.sym_sizes()) sizes.push_back(size);
  sizes.push_back(table.sym_size(2));
  const at::Tensor at_zero = positions.masked_fill(known.logical_not(), 0);
  return table.index_select(1, at_zero.reshape(-1))
      .view_symint(sizes)
      .masked_fill(known.logical_not().unsqueeze(-1), std::numeric_limits<double>::quiet_NaN());
}

// The same in ATen's operators, for tangents and for devices without a kernel.
at::Tensor rotary_composed(const at::Tensor& x, const at::Tensor& table, const OptionalTensor& positions,
                           std::int64_t first, bool halves, bool back) {
  const Turn turn{positions, first, halves, back};
  check_rotary(x, table, turn);
  const at::Tensor angles = angles_of(x, table, turn).unsqueeze(-2);  // the same for every head
  const at::Tensor cosine = angles.select(0, 0), sine = back ? -angles.select(0, 1) : angles.select(0, 1);
  const at::Tensor wide = x.to(table.scalar_type());
  const std::vector<at::Tensor> parts =
      halves ? wide.chunk(2, -1)
             : wide.reshape_symint({x.sym_size(0), x.sym_size(1), x.sym_size(2), table.sym_size(2), 2}).unbind(-1);
  const std::vector<at::Tensor> turned{parts[0] * cosine - parts[1] * sine, parts[0] * sine + parts[1] * cosine};
  return (halves ? at::cat(turned, -1) : at::stack(turned, -1).reshape_symint(x.sym_sizes()))
      .to(x.scalar_type())
      .contiguous();
}

at::Tensor rotary_autograd(const at::Tensor& x, const at::Tensor& table, const OptionalTensor& positions,
                           std::int64_t first, bool halves, bool back) {
  if (has_tangent({x, table}) || needs_record({table}))
    return rotary_composed(x, table, positions, first, halves, back);
  at::Tensor turned;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    turned = ops::rotary(x, table, positions, first, halves, back);
  }
  if (needs_record({x}))
    record_saving(
        "RotaryBackward", {x}, {turned},
        {.inputs = {}, .outputs = {}, .constants = {table, positions.value_or(at::Tensor())}},
        [first, halves, back](const variable_list&, const variable_list& saved, const variable_list& gradients) {
          const OptionalTensor places = saved[1].defined() ? OptionalTensor(saved[1]) : std::nullopt;
          return variable_list{ops::rotary(gradients[0], saved[0], places, first, halves, !back)};
        });
  return turned;
}

}  // namespace

at::Tensor rotary(const at::Tensor& x, const at::Tensor& table, const OptionalTensor& positions, std::int64_t first,
                  bool halves, bool back) {
  static const auto handle = find_operator<decltype(ops::rotary)>("cogwheel::rotary");
  return handle.call(x, table, positions, first, halves, back);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "rotary(Tensor x, Tensor table, Tensor? positions=None, int first=0, bool halves=False, bool back=False) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { library.impl("rotary", rotary_cpu); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("rotary", rotary_meta); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("rotary", rotary_composed); }
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("rotary", rotary_autograd); }

}  // namespace cogwheel::ops
