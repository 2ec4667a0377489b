#include "cogwheel/ops/recurrent/token_walk_launches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <string_view>
#include <utility>

#include "cogwheel/ops/recurrent/walk_passes.h"
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
struct LaunchedWalk {
  at::Tensor query, key, value;
  WalkPasses passes;

  explicit LaunchedWalk(const TokenWalk& walk)
      : query(with_contiguous_width(walk.scale == 1 ? walk.query : walk.query * walk.scale)),
        key(with_contiguous_width(walk.key)),
        value(counted(walk)),
        passes(gates_of(walk), WalkLaunches(walk.value, walk.cu_seqlens, walk.key.size(3), value_width(walk)),
               walk.reads_before, !walk.initial_state) {}

  // Of one decay for each head, chunk by chunk.
  void then_head_gates(const at::Tensor& gradient, const at::Tensor& log_decay, const at::Tensor& states,
                       const at::Tensor& of_states, const at::Tensor& of_gate) {
    WalkLaunches& launches = passes.launches;
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
};

}  // namespace

bool is_launched(const TokenWalk& walk) { return walks_are_launched(walk.value); }

Walked launched(const TokenWalk& walk) {
  LaunchedWalk launched(walk);
  WalkPasses& passes = launched.passes;
  const at::Tensor states = passes.launches.states(), last = passes.launches.states_of_sequences();
  const at::Tensor output =
      at::empty({walk.value.size(0), walk.value.size(1), walk.value.size(2), value_width(walk)}, walk.value.options());
  passes.then_states(launched.key, launched.value, walk.initial_state, states, last, false);
  passes.then_outputs(launched.query, launched.key, launched.value, output, states, {});
  passes.launches.run();
  return {output, last};
}

WalkGradients<TokenWalk> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                       const TokenWalk& walk) {
  LaunchedWalk launched(walk);
  WalkPasses& passes = launched.passes;
  WalkLaunches& launches = passes.launches;
  const at::Tensor &query = launched.query, &key = launched.key, &value = launched.value;
  const at::Tensor gradient = with_contiguous_width(output_gradient);
  WalkGradients<TokenWalk> gradients = empty_walk_gradients(walk);
  auto& [of_query, of_key, of_value, of_gate, of_value_gate, of_state] = gradients;
  const at::Tensor states = launches.states(), of_states = launches.states(), last = launches.states_of_sequences();
  passes.then_states(key, value, walk.initial_state, states, last, false);
  passes.then_states(query, gradient, state_gradient, of_states,
                     walk.initial_state ? of_state : launches.states_of_sequences(), true);
  passes.then_outputs(gradient, value, key, of_query, states, {.transposed = true});
  passes.then_outputs(key, query, gradient, of_value, of_states, {.reversed = true});
  passes.then_outputs(value, gradient, query, of_key, of_states, {.transposed = true, .reversed = true});
  at::Tensor of_decays;
  if (is_constant(walk)) {
    of_decays = at::zeros({launches.sequences(), launches.chunks(), launches.heads()}, walk.value.options());
    launched.then_head_gates(gradient, walk.gate->log(), states, of_states, of_decays);
  } else if (walk.gate) {
    passes.then_gates(query, of_query, key, of_key, states, of_states, as_rows(of_gate), false);
  }
  at::Tensor output;
  if (walk.value_gate) {
    output = at::empty_like(of_value);
    passes.then_outputs(query, key, value, output, states, {});
    passes.then_gates(output, gradient, value, of_value, states, of_states, of_value_gate, true);
  }
  launches.run();
  if (walk.scale != 1) of_query.mul_(walk.scale);
  if (is_constant(walk)) of_gate = of_decays.sum(1).sum(0);
  return gradients;
}

}  // namespace cogwheel::ops
