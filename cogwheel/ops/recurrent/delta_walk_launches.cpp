#include "cogwheel/ops/recurrent/delta_walk_launches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "cogwheel/ops/recurrent/walk_launches.h"
#include "cogwheel/ops/support/contiguous_width.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t columns_of_delta_program = 16;

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
    if (walk.log_decay) (walk.log_decay->dim() == 3 ? gates.token : gates.row) = as_rows(*walk.log_decay);
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

}  // namespace

bool is_launched(const DeltaWalk& walk) {
  return walks_are_launched(walk.value) && walk.key.size(3) <= widest_launched_walk;
}

Walked launched(const DeltaWalk& walk) {
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
  LaunchedDelta delta(walk);
  WalkLaunches& launches = delta.launches;
  WalkGradients<DeltaWalk> gradients = empty_walk_gradients(walk);
  auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  const at::Tensor states = launches.states(), parts_of_query = launches.parts(delta.blocks, of_query),
                   parts_of_key = launches.parts(delta.blocks, of_key),
                   parts_of_beta = launches.parts(delta.blocks, delta.beta),
                   parts_of_decay =
                       walk.log_decay ? launches.parts(delta.blocks, as_rows(*walk.log_decay)) : at::Tensor();
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
  if (walk.log_decay) launches.add_parts(backward, delta.gates.token ? "of_token_gate" : "of_row_gate", parts_of_decay);
  if (walk.initial_state) backward.add("of_initial", of_state);
  launches.then(std::move(backward));
  launches.run();
  of_query = parts_of_query.sum(0);
  if (walk.scale != 1) of_query.mul_(walk.scale);
  of_key = parts_of_key.sum(0);
  of_beta = parts_of_beta.sum(0).squeeze(-1);
  if (walk.log_decay) of_log_decay = parts_of_decay.sum(0).view(walk.log_decay->sizes());
  return gradients;
}

}  // namespace cogwheel::ops
