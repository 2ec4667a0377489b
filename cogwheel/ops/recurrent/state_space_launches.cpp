#include "cogwheel/ops/recurrent/state_space_launches.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <string>
#include <utility>

#include "cogwheel/ops/recurrent/walk_launches.h"
#include "cogwheel/ops/support/contiguous_width.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t columns_of_space_program = 32;

// Of `rank` dimensions, and one more where it differs by head.
void add_table(Launch& launch, const std::string& name, const OptionalTensor& tensor, std::int64_t rank) {
  if (!tensor) return;
  const at::Tensor kept = tensor->contiguous();
  launch.add(name + ".data", kept);
  launch.add(name + ".head", kept.dim() > rank ? kept.stride(0) : 0);
}

struct LaunchedSpace {
  WalkLaunches launches;
  WalkLaunches::Blocks blocks;

  explicit LaunchedSpace(const StateSpace& space)
      : launches(space.value, space.cu_seqlens, space.a.size(-2), space.value.size(3), chunk_of_tokens),
        blocks(launches.columns_of_states(columns_of_space_program)) {}

  Launch launch(std::string_view kernel, const StateSpace& space) const {
    Launch made = launches.launch(kernel, blocks, launches.programs_of_columns(blocks));
    made.add_heads("value", with_contiguous_width(space.value));
    if (space.query) {
      made.add_heads("query", with_contiguous_width(*space.query));
      made.add_heads("key", with_contiguous_width(*space.key));
      made.add_heads("delta", with_contiguous_width(space.delta));
    } else {
      add_table(made, "step", space.delta, 1);
      add_table(made, "write", space.b, 2);
      add_table(made, "read", space.c, 2);
    }
    add_table(made, "rate", space.a, 2);
    add_table(made, "skip", space.skip, 1);
    made.add("scale", space.scale);
    return made;
  }

  Launch forward(const StateSpace& space, const at::Tensor& last) const {
    Launch made = launch("space_forward", space);
    if (space.initial_state) made.add("initial", space.initial_state->contiguous());
    made.add("last", last);
    return made;
  }
};

// Of each sequence and head [sequences, H, …] to the sizes of what was given for all of them.
at::Tensor summed(const at::Tensor& each, const at::Tensor& given) {
  at::Tensor sum = each.sum(0);
  if (sum.dim() > given.dim()) sum = sum.sum(0);
  return sum.view(given.sizes());
}

}  // namespace

bool is_launched(const StateSpace& space) {
  return walks_are_launched(space.value) && space.a.size(-2) <= widest_launched_walk;
}

Walked launched(const StateSpace& space) {
  LaunchedSpace made(space);
  const Walked walked{at::empty(space.value.sizes(), space.value.options()), made.launches.states_of_sequences()};
  Launch forward = made.forward(space, std::get<1>(walked));
  forward.add_heads("output", std::get<0>(walked));
  made.launches.then(std::move(forward));
  made.launches.run();
  return walked;
}

WalkGradients<StateSpace> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                        const StateSpace& space) {
  LaunchedSpace made(space);
  WalkLaunches& launches = made.launches;
  WalkGradients<StateSpace> gradients = empty_walk_gradients(space);
  auto& [of_value, of_delta, of_a, of_query, of_key, of_b, of_c, of_skip, of_state] = gradients;
  const bool selective = space.query.has_value();
  const at::Tensor states = launches.states(), each_a = at::zeros_like(launches.states_of_sequences());
  Launch forward = made.forward(space, launches.states_of_sequences());
  launches.add_states(forward, "states", states);
  launches.then(std::move(forward));
  Launch backward = made.launch("space_backward", space);
  backward.add_heads("gradient", with_contiguous_width(output_gradient));
  launches.add_states(backward, "states", states);
  if (state_gradient) backward.add("of_last", state_gradient->contiguous());
  backward.add("scratch", launches.states_of_programs(made.blocks));
  backward.add_heads("of_value", of_value);
  backward.add("of_rate", each_a);
  at::Tensor parts_of_query, parts_of_key, each_b, each_c, each_delta, each_skip;
  if (selective) {
    parts_of_query = launches.parts(made.blocks, of_query);
    parts_of_key = launches.parts(made.blocks, of_key);
    launches.add_parts(backward, "of_query", parts_of_query);
    launches.add_parts(backward, "of_key", parts_of_key);
    backward.add_heads("of_delta", of_delta);
  } else {
    each_b = at::zeros_like(each_a), each_c = at::zeros_like(each_a), each_delta = at::zeros_like(each_a.select(2, 0));
    backward.add("of_write", each_b);
    backward.add("of_read", each_c);
    backward.add("of_step", each_delta);
  }
  if (space.skip) {
    each_skip = at::zeros_like(each_a.select(2, 0));
    backward.add("of_skip", each_skip);
  }
  if (space.initial_state) backward.add("of_initial", of_state);
  launches.then(std::move(backward));
  launches.run();
  of_a = summed(each_a, space.a);
  if (space.skip) of_skip = summed(each_skip, *space.skip);
  if (selective) {
    of_query = parts_of_query.sum(0);
    of_key = parts_of_key.sum(0);
  } else {
    of_b = summed(each_b, *space.b);
    of_c = summed(each_c, *space.c);
    of_delta = summed(each_delta, space.delta);
  }
  return gradients;
}

}  // namespace cogwheel::ops
