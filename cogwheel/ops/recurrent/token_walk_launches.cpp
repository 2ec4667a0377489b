#include "cogwheel/ops/recurrent/token_walk_launches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <string_view>
#include <utility>

#include "cogwheel/ops/recurrent/walk_launches.h"
#include "cogwheel/ops/support/contiguous_width.h"

namespace cogwheel::ops {
namespace {

std::int64_t value_width(const TokenWalk& walk) { return walk.value.size(3) + (walk.counts ? 1 : 0); }

bool is_constant(const TokenWalk& walk) { return walk.transition == "constant"; }

WalkGates gates_of(const TokenWalk& walk) {
  WalkGates gates;
  if (is_constant(walk))
    gates.token = walk.gate->log().view({1, -1, 1, 1}).expand({walk.value.size(0), -1, walk.value.size(2), 1});
  else if (walk.gate)
    (walk.gate->dim() == 3 ? gates.token : gates.row) = as_rows(*walk.gate);
  if (walk.value_gate) gates.column = with_contiguous_width(*walk.value_gate);
  return gates;
}

at::Tensor counted(const TokenWalk& walk) {
  if (!walk.counts) return with_contiguous_width(walk.value);
  const at::Tensor& value = walk.value;
  return at::cat({value, at::ones({value.size(0), value.size(1), value.size(2), 1}, value.options())}, -1);
}

// A walk's tensors as its kernels read them: queries times the scale, with which no kernel has to do then.
class LaunchedWalk {
 public:
  explicit LaunchedWalk(const TokenWalk& walk)
      : query(with_contiguous_width(walk.scale == 1 ? walk.query : walk.query * walk.scale)),
        key(with_contiguous_width(walk.key)),
        value(counted(walk)),
        gates(gates_of(walk)),
        launches(walk.value, walk.cu_seqlens, walk.key.size(3), value_width(walk)),
        strict_(walk.reads_before),
        from_nothing_(!walk.initial_state) {}

  void then_states(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& initial,
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
    add_order(launch, reversed);
    launches.then(std::move(launch));
  }

  // `transposed`: rows are as wide as values. Of a part of the columns where `output` has but these.
  void then_outputs(const at::Tensor& reading, const at::Tensor& rows, const at::Tensor& columns,
                    const at::Tensor& output, const at::Tensor& states, bool transposed, bool reversed) {
    WalkLaunches::Blocks whole = launches.blocks_of_tokens(transposed, gates.of_channels());
    whole.column_width = output.size(3);
    Launch launch = launches.launch(
        "token_outputs", whole,
        launches.programs_of_chunks() * (launches.chunk() / whole.tokens) * blocks(whole.column_width, whole.columns));
    launch.add_heads("reading", reading);
    launch.add_heads("rows", rows);
    launch.add_heads("columns", columns);
    launch.add_heads("output", output);
    launches.add_gates(launch, transposed ? gates.of_transposed() : gates);
    launches.add_states(launch, "states", states, transposed);
    add_order(launch, reversed);
    launches.then(std::move(launch));
  }

  // Of what is read and what is written, each with its gradient, of the rows of the state or, transposed, the columns.
  void then_gates(const at::Tensor& read, const at::Tensor& of_read, const at::Tensor& written,
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

  // Of one decay for each head, chunk by chunk.
  void then_head_gates(const at::Tensor& gradient, const at::Tensor& log_decay, const at::Tensor& states,
                       const at::Tensor& of_states, const at::Tensor& of_gate) {
    Launch launch = launches.launch("head_gates", launches.blocks_of_pairs(), launches.programs_of_chunks());
    launch.add_heads("query", query);
    launch.add_heads("key", key);
    launch.add_heads("value", value);
    launch.add_heads("gradient", gradient);
    launch.add("log_decay", log_decay);
    launches.add_states(launch, "states", states, false);
    launches.add_states(launch, "of_states", of_states, false);
    launch.add("of_gate", of_gate);
    launches.then(std::move(launch));
  }

  at::Tensor query, key, value;
  WalkGates gates;
  WalkLaunches launches;

 private:
  void add_order(Launch& launch, bool reversed) const {
    launch.add_constant("REVERSED", reversed ? 1 : 0);
    launch.add_constant("STRICT", strict_ ? 1 : 0);
  }

  bool strict_, from_nothing_;
};

}  // namespace

bool is_launched(const TokenWalk& walk) { return walks_are_launched(walk.value); }

Walked launched(const TokenWalk& walk) {
  LaunchedWalk launched(walk);
  const at::Tensor states = launched.launches.states(), last = launched.launches.states_of_sequences();
  const at::Tensor output =
      at::empty({walk.value.size(0), walk.value.size(1), walk.value.size(2), value_width(walk)}, walk.value.options());
  launched.then_states(launched.key, launched.value, walk.initial_state, states, last, false);
  launched.then_outputs(launched.query, launched.key, launched.value, output, states, false, false);
  launched.launches.run();
  return {output, last};
}

WalkGradients<TokenWalk> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                       const TokenWalk& walk) {
  LaunchedWalk launched(walk);
  WalkLaunches& launches = launched.launches;
  const at::Tensor &query = launched.query, &key = launched.key, &value = launched.value;
  const at::Tensor gradient = with_contiguous_width(output_gradient);
  WalkGradients<TokenWalk> gradients = empty_walk_gradients(walk);
  auto& [of_query, of_key, of_value, of_gate, of_value_gate, of_state] = gradients;
  const at::Tensor states = launches.states(), of_states = launches.states(), last = launches.states_of_sequences();
  launched.then_states(key, value, walk.initial_state, states, last, false);
  launched.then_states(query, gradient, state_gradient, of_states,
                       walk.initial_state ? of_state : launches.states_of_sequences(), true);
  launched.then_outputs(gradient, value, key, of_query, states, true, false);
  launched.then_outputs(key, query, gradient, of_value, of_states, false, true);
  launched.then_outputs(value, gradient, query, of_key, of_states, true, true);
  at::Tensor of_decays;
  if (is_constant(walk)) {
    of_decays = at::zeros({launches.sequences(), launches.chunks(), launches.heads()}, walk.value.options());
    launched.then_head_gates(gradient, walk.gate->log(), states, of_states, of_decays);
  } else if (walk.gate) {
    launched.then_gates(query, of_query, key, of_key, states, of_states, as_rows(of_gate), false);
  }
  at::Tensor output;
  if (walk.value_gate) {
    output = at::empty_like(of_value);
    launched.then_outputs(query, key, value, output, states, false, false);
    launched.then_gates(output, gradient, value, of_value, states, of_states, of_value_gate, true);
  }
  launches.run();
  if (walk.scale != 1) of_query.mul_(walk.scale);
  if (is_constant(walk)) of_gate = of_decays.sum(1).sum(0);
  return gradients;
}

}  // namespace cogwheel::ops
