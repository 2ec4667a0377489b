// The tasks of a backward pass by chunks. With heads enough to keep all workers busy, a task is a head. Otherwise both
// walks over the groups of chunks come first, each a task, and then groups are independent of each other: the same
// numbers bit for bit. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/chunk_backward.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T, bool decays>
void backward_by_chunks(const RecurrentBackward<T>& problem, const Executor& executor) {
  using Chunks = BackwardChunks<T, decays>;
  const RecurrentShape& shape = problem.shape;
  const std::int64_t heads = shape.sequences * shape.heads;
  const auto chunks_of = [&](std::int64_t head, std::int64_t kept) {
    return Chunks(problem, head / shape.heads, head % shape.heads, kept);
  };
  const auto store_constant = [&](std::int64_t head, T of_constant) {
    if (problem.transition == Transition::constant)
      *problem.gate_gradient.row(head / shape.heads, head % shape.heads, 0) = of_constant;
  };
  const std::int64_t most = groups_of(shape.tokens);
  if (executor.workers() == 1 || heads >= 4 * executor.workers() || most < 2) {
    executor.run(heads, [&](std::int64_t head, int) {
      store_constant(head, chunks_of(head, groups_of(shape.span(head / shape.heads).count)).walk_all());
    });
    return;
  }
  // A state takes as much in each head.
  const std::int64_t size = vectors_of(shape.key_width, Vector<T>::lanes) * Vector<T>::lanes * shape.value_width;
  T *states = nullptr, *gradients = nullptr, *of_constants = nullptr;
  const auto lay_out = [&](void* base) {
    WorkspaceLayout layout(base);
    states = layout.take<T>(static_cast<std::size_t>(heads * most * size));
    gradients = layout.take<T>(static_cast<std::size_t>(heads * most * size));
    of_constants = layout.take<T>(static_cast<std::size_t>(heads * most));
    return layout.bytes();
  };
  lay_out(thread_workspace(Scratch::call, lay_out(nullptr)));
  executor.run(2 * heads, [&](std::int64_t task, int) {
    const std::int64_t head = task / 2;
    if (task % 2 == 0)
      chunks_of(head, 0).walk_states(states + head * most * size);
    else
      chunks_of(head, 0).walk_gradients(gradients + head * most * size);
  });
  executor.run(heads * most, [&](std::int64_t task, int) {
    const std::int64_t head = task / most, group = task % most;
    if (group < groups_of(shape.span(head / shape.heads).count))
      of_constants[task] = chunks_of(head, 0).walk_back(group, states + task * size, gradients + task * size);
  });
  for (std::int64_t head = 0; head < heads; ++head) {
    T of_constant = 0;
    for (std::int64_t group = groups_of(shape.span(head / shape.heads).count); group-- > 0;)
      of_constant += of_constants[head * most + group];
    store_constant(head, of_constant);
  }
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
