#include "cogwheel/ops/recurrent/delta_walk_launches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "cogwheel/ops/recurrent/walk_passes.h"
#include "cogwheel/ops/support/contiguous_width.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t columns_of_delta_program = 16;

// Token by token: where rows have decays of their own.
struct LaunchedDelta {
  at::Tensor query, key, value, beta;
  WalkGates gates;
  WalkLaunches launches;
  WalkLaunches::Blocks blocks;

  explicit LaunchedDelta(const DeltaWalk& walk)
      : query(with_contiguous_width(walk.scale == 1 ? walk.query : walk.query * walk.scale)),
        key(with_contiguous_width(walk.key)),
        value(with_contiguous_width(walk.value)),
        beta(as_rows(walk.beta)),
        launches(walk.value, walk.cu_seqlens, walk.key.size(3), walk.value.size(3), chunk_of_tokens),
        blocks(launches.columns_of_states(columns_of_delta_program)) {
    gates.row = as_rows(*walk.log_decay);
  }

  Launch launch(std::string_view kernel) const {
    Launch made = launches.launch(kernel, blocks, launches.programs_of_columns(blocks));
    made.add_heads("query", query);
    made.add_heads("key", key);
    made.add_heads("value", value);
    made.add_heads("beta", beta);
    launches.add_gates(made, gates);
    return made;
  }

  Launch forward(const DeltaWalk& walk, const at::Tensor& last) const {
    Launch made = launch("delta_forward");
    if (walk.initial_state) made.add("initial", walk.initial_state->contiguous());
    made.add("last", last);
    return made;
  }
};

// By chunks, as products: where a decay is one number for a token, or there is none; however few tokens there are, as
// other walks.
bool is_chunked(const DeltaWalk& walk) { return !walk.log_decay || walk.log_decay->dim() == 3; }

// For which compilers keep nearly everything in registers.
constexpr std::int64_t columns_of_chunked_program = 16, warps_of_chunked_program = 4;

struct ChunkedDelta {
  at::Tensor query, key, value, beta;
  WalkPasses passes;
  at::Tensor solved, added;  // delta_inverse.py; what each token adds to the state

  explicit ChunkedDelta(const DeltaWalk& walk)
      : query(with_contiguous_width(walk.scale == 1 ? walk.query : walk.query * walk.scale)),
        key(with_contiguous_width(walk.key)),
        value(with_contiguous_width(walk.value)),
        beta(as_rows(walk.beta)),
        passes(walk.log_decay ? WalkGates{.token = as_rows(*walk.log_decay)} : WalkGates{},
               WalkLaunches(walk.value, walk.cu_seqlens, walk.key.size(3), walk.value.size(3)), false,
               !walk.initial_state),
        solved(at::empty({key.size(0), key.size(1), key.size(2), passes.launches.chunk()}, walk.value.options())),
        added(empty_like_values()) {}

  at::Tensor empty_like_values() const { return at::empty(value.sizes(), value.options()); }
  at::Tensor empty_like_keys() const { return at::empty(key.sizes(), key.options()); }

  void then_inverse() {
    WalkLaunches& launches = passes.launches;
    WalkLaunches::Blocks blocks = launches.blocks_of_tokens(false, false);
    Launch launch = launches.launch("delta_inverse", blocks, launches.programs_of_chunks());
    launch.add_heads("key", key);
    launch.add_heads("beta", beta);
    launch.add_heads("solved", solved);
    launches.add_gates(launch, passes.gates);
    launches.then(std::move(launch));
  }

  // Reversed where there is a gradient of outputs.
  void then_states(const at::Tensor& read, const at::Tensor& written, const OptionalTensor& initial,
                   const at::Tensor& states, const at::Tensor& last, const OptionalTensor& gradient = {}) {
    WalkLaunches& launches = passes.launches;
    WalkLaunches::Blocks columns = launches.blocks_of_tokens(false, false);
    columns.columns = std::min(columns.columns, columns_of_chunked_program);
    columns.warps = warps_of_chunked_program;
    Launch launch = launches.launch("delta_states", columns, launches.programs_of_columns(columns));
    if (gradient) launch.add_heads("query", query), launch.add_heads("gradient", *gradient);
    launch.add_heads("key", key);
    launch.add_heads("read", read);
    launch.add_heads("solved", solved);
    launch.add_heads("added", written);
    launches.add_gates(launch, passes.gates);
    if (initial) launch.add("initial", initial->contiguous());
    launches.add_states(launch, "states", states);
    launch.add("last", last);
    launch.add_constant("REVERSED", gradient ? 1 : 0);
    launches.then(std::move(launch));
  }

  // What is read in an order, new memory.
  at::Tensor then_read(const at::Tensor& reading, const at::Tensor& rows, const at::Tensor& columns,
                       const OptionalTensor& states, const WalkPasses::Order& order) {
    at::Tensor found = order.transposed ? empty_like_keys() : empty_like_values();
    passes.then_outputs(reading, rows, columns, found, states, order);
    return found;
  }
};

Walked launched_in_chunks(const DeltaWalk& walk) {
  ChunkedDelta delta(walk);
  WalkLaunches& launches = delta.passes.launches;
  const at::Tensor states = launches.states();
  Walked walked{delta.empty_like_values(), launches.states_of_sequences()};
  auto& [output, last] = walked;
  delta.then_inverse();
  delta.then_states(delta.value, delta.added, walk.initial_state, states, last);
  delta.passes.then_outputs(delta.query, delta.key, delta.added, output, states, {});
  launches.run();
  return walked;
}

// With u_t what a token adds, m_t the derivative by what v_t lacks, S′_t the decayed state before it and G_t the
// derivative by the state after it: q′ = S o′, k′ = G u − S′ m, v′ = m, β′ = (Gᵀ k)·(v − S′ᵀ k), and of the logarithm
// of a decay sums of q·q′ − k·(G u + S′ m), all of which walks over tokens read (walk_passes.h).
WalkGradients<DeltaWalk> launched_back_in_chunks(const at::Tensor& output_gradient,
                                                 const OptionalTensor& state_gradient, const DeltaWalk& walk) {
  ChunkedDelta delta(walk);
  WalkPasses& passes = delta.passes;
  WalkLaunches& launches = passes.launches;
  WalkGradients<DeltaWalk> gradients = empty_walk_gradients(walk);
  auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  const at::Tensor &query = delta.query, &key = delta.key, &added = delta.added;
  const at::Tensor gradient = with_contiguous_width(output_gradient), states = launches.states(),
                   of_states = launches.states();
  delta.then_inverse();
  delta.then_states(delta.value, added, walk.initial_state, states, launches.states_of_sequences());
  const at::Tensor of_chunk = delta.then_read(key, query, gradient, {}, {.reversed = true});
  delta.then_states(of_chunk, of_value, state_gradient, of_states,
                    walk.initial_state ? of_state : launches.states_of_sequences(), gradient);
  passes.then_outputs(gradient, added, key, of_query, states, {.transposed = true});
  passes.then_outputs(added, gradient, query, of_key, of_states, {.transposed = true, .reversed = true});
  const at::Tensor others =
      delta.then_read(added, of_value, key, {}, {.transposed = true, .reversed = true, .of_others = true});
  const at::Tensor of_lacking = delta.then_read(of_value, added, key, states, {.transposed = true, .of_others = true});
  at::Tensor of_added = delta.then_read(key, query, gradient, of_states, {.reversed = true});
  const at::Tensor of_added_later = delta.then_read(key, key, of_value, {}, {.reversed = true, .of_others = true});
  at::Tensor known = delta.then_read(key, key, added, states, {.of_others = true});
  launches.run();
  of_key.sub_(others);  // G u
  of_added.sub_(of_added_later);
  of_beta = of_added.mul_(known.neg_().add_(delta.value)).sum(-1);
  if (walk.log_decay) {
    passes.then_gates(query, of_query, key, of_key + of_lacking, states, of_states, as_rows(of_log_decay), false);
    launches.run();
  }
  of_key.sub_(of_lacking);
  if (walk.scale != 1) of_query.mul_(walk.scale);
  return gradients;
}

}  // namespace

bool is_launched(const DeltaWalk& walk) {
  return walks_are_launched(walk.value) && (is_chunked(walk) || walk.key.size(3) <= widest_launched_walk);
}

Walked launched(const DeltaWalk& walk) {
  if (is_chunked(walk)) return launched_in_chunks(walk);
  LaunchedDelta delta(walk);
  const Walked walked{at::empty(walk.value.sizes(), walk.value.options()), delta.launches.states_of_sequences()};
  Launch forward = delta.forward(walk, std::get<1>(walked));
  forward.add_heads("output", std::get<0>(walked));
  delta.launches.then(std::move(forward));
  delta.launches.run();
  return walked;
}

WalkGradients<DeltaWalk> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                       const DeltaWalk& walk) {
  if (is_chunked(walk)) return launched_back_in_chunks(output_gradient, state_gradient, walk);
  LaunchedDelta delta(walk);
  WalkLaunches& launches = delta.launches;
  WalkGradients<DeltaWalk> gradients = empty_walk_gradients(walk);
  auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  const at::Tensor states = launches.states(), parts_of_query = launches.parts(delta.blocks, of_query),
                   parts_of_key = launches.parts(delta.blocks, of_key),
                   parts_of_beta = launches.parts(delta.blocks, delta.beta),
                   parts_of_decay = launches.parts(delta.blocks, of_log_decay);
  Launch forward = delta.forward(walk, launches.states_of_sequences());
  launches.add_states(forward, "states", states);
  launches.then(std::move(forward));
  Launch backward = delta.launch("delta_backward");
  backward.add_heads("gradient", with_contiguous_width(output_gradient));
  launches.add_states(backward, "states", states);
  if (state_gradient) backward.add("of_last", state_gradient->contiguous());
  backward.add("scratch", launches.states_of_programs(delta.blocks));
  launches.add_parts(backward, "of_query", parts_of_query);
  launches.add_parts(backward, "of_key", parts_of_key);
  backward.add_heads("of_value", of_value);
  launches.add_parts(backward, "of_beta", parts_of_beta);
  launches.add_parts(backward, "of_row_gate", parts_of_decay);
  if (walk.initial_state) backward.add("of_initial", of_state);
  launches.then(std::move(backward));
  launches.run();
  of_query = parts_of_query.sum(0);
  if (walk.scale != 1) of_query.mul_(walk.scale);
  of_key = parts_of_key.sum(0);
  of_beta = parts_of_beta.sum(0).squeeze(-1);
  of_log_decay = parts_of_decay.sum(0);
  return gradients;
}

}  // namespace cogwheel::ops
