#include "cogwheel/ops/recurrent/walk_passes.h"

#include <utility>

namespace cogwheel::ops {

WalkPasses::WalkPasses(WalkGates of_walk, WalkLaunches to_launch, bool strict, bool from_nothing)
    : gates(std::move(of_walk)), launches(std::move(to_launch)), strict_(strict), from_nothing_(from_nothing) {}

void WalkPasses::then_states(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& initial,
                             const at::Tensor& states, const at::Tensor& last, bool reversed) {
  const WalkLaunches::Blocks parts = launches.parts_of_states(false, gates.of_channels());
  Launch launch = launches.launch("token_states", parts,
                                  launches.sequences() * launches.heads() * blocks(parts.row_width, parts.rows) *
                                      blocks(parts.column_width, parts.columns));
  launch.add_heads("rows", rows);
  launch.add_heads("columns", columns);
  launches.add_gates(launch, gates);
  if (initial) launch.add("initial", initial->contiguous());
  launches.add_states(launch, "states", states, false);
  launch.add("last", last);
  launch.add_constant("REVERSED", reversed ? 1 : 0);
  launch.add_constant("STRICT", strict_ ? 1 : 0);
  launches.then(std::move(launch));
}

void WalkPasses::then_outputs(const at::Tensor& reading, const at::Tensor& rows, const at::Tensor& columns,
                              const at::Tensor& output, const OptionalTensor& states, const Order& order) {
  WalkLaunches::Blocks whole = launches.blocks_of_tokens(order.transposed, gates.of_channels());
  whole.column_width = output.size(3);
  Launch launch = launches.launch(
      "token_outputs", whole,
      launches.programs_of_chunks() * (launches.chunk() / whole.tokens) * blocks(whole.column_width, whole.columns));
  launch.add_heads("reading", reading);
  launch.add_heads("rows", rows);
  launch.add_heads("columns", columns);
  launch.add_heads("output", output);
  launches.add_gates(launch, order.transposed ? gates.of_transposed() : gates);
  if (states) launches.add_states(launch, "states", *states, order.transposed);
  launch.add_constant("REVERSED", order.reversed ? 1 : 0);
  launch.add_constant("STRICT", strict_ ? 1 : 0);
  launch.add_constant("OF_OTHERS", order.of_others ? 1 : 0);
  launches.then(std::move(launch));
}

void WalkPasses::then_gates(const at::Tensor& read, const at::Tensor& of_read, const at::Tensor& written,
                            const at::Tensor& of_written, const at::Tensor& states, const at::Tensor& of_states,
                            const at::Tensor& of_gate, bool transposed) {
  const WalkLaunches::Blocks parts = launches.parts_of_states(transposed, gates.of_channels());
  const bool of_tokens = gates.token.has_value();
  Launch launch = launches.launch(
      "token_gates", parts, launches.programs_of_chunks() * (of_tokens ? 1 : blocks(parts.row_width, parts.rows)));
  launch.add_heads("query", read);
  launch.add_heads("of_query", of_read);
  launch.add_heads("key", written);
  launch.add_heads("of_key", of_written);
  launches.add_states(launch, "states", states, transposed);
  launches.add_states(launch, "of_states", of_states, transposed);
  launch.add_heads("of_gate", of_gate);
  launch.add_constant("OF_TOKENS", of_tokens ? 1 : 0);
  launch.add_constant("FROM_NOTHING", from_nothing_ ? 1 : 0);
  launch.add_constant("STRICT", strict_ ? 1 : 0);
  launches.then(std::move(launch));
}

}  // namespace cogwheel::ops
