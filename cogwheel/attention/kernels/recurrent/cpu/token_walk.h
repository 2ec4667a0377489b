// What the two directions of the walk over tokens share. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// What a walk must know of a transition when it is compiled: γ of a head and α of a token are one number for every row
// of the state, the other has one for each.
enum class Decay { none, scalar, rows };

// Each of these that for_walk names is compiled.
struct Walk {
  Decay decay = Decay::none;
  bool decays_columns = false, reads_before = false;
};

constexpr std::int64_t vectors_of(std::int64_t width, std::int64_t lanes) { return (width + lanes - 1) / lanes; }

// `width` numbers and zeros up to `padded`.
template <class T>
HWY_INLINE void copy_padded(const T* from, std::int64_t width, std::int64_t padded, T* to) {
  std::int64_t i = 0;
  for (; i < width; ++i) to[i] = from[i];
  for (; i < padded; ++i) to[i] = T(0);
}

template <class T>
HWY_INLINE void exp_in_place(T* numbers, std::int64_t padded) {
  using V = Vector<T>;
  for (std::int64_t i = 0; i < padded; i += V::lanes) V::exp(V::load(numbers + i)).store(numbers + i);
}

// The multipliers of the state's rows [first_row, first_row + width) for `count` tokens: [count][padded] of rows, or
// [count] of scalars, in memory for a whole number of vectors.
template <class T, Decay decay>
void decays_of(const RecurrentProblem<T>& problem, std::int64_t batch, std::int64_t head, std::int64_t token,
               std::int64_t count, std::int64_t first_row, std::int64_t width, std::int64_t padded, T* to) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  if constexpr (decay == Decay::rows) {
    for (std::int64_t t = 0; t < count; ++t)
      copy_padded(problem.gate.row(batch, head, token + t) + first_row, width, padded, to + t * padded);
    exp_in_place(to, count * padded);
  } else if constexpr (decay == Decay::scalar) {
    for (std::int64_t t = 0; t < count; ++t) to[t] = *problem.gate.row(batch, head, token + t);
    if (problem.transition == Transition::constant) return;
    for (std::int64_t t = count; t % lanes != 0; ++t) to[t] = T(0);
    exp_in_place(to, vectors_of(count, lanes) * lanes);
  }
}

// The multipliers of `columns` columns of the state for `count` tokens, [count][padded].
template <class T>
void column_decays_of(const RecurrentProblem<T>& problem, std::int64_t batch, std::int64_t head, std::int64_t token,
                      std::int64_t count, std::int64_t first_column, std::int64_t columns, std::int64_t padded, T* to) {
  for (std::int64_t t = 0; t < count; ++t)
    copy_padded(problem.value_gate.row(batch, head, token + t) + first_column, columns, padded, to + t * padded);
  exp_in_place(to, count * padded);
}

// run(std::integral_constant<Walk, walk>) with the walk of a problem.
template <class T, class Run>
void for_walk(const RecurrentProblem<T>& problem, const Run& run) {
  const bool rows = problem.transition == Transition::per_channel;
  if (problem.decays_columns) {
    if (rows) return run(std::integral_constant<Walk, Walk{Decay::rows, true}>());
    return run(std::integral_constant<Walk, Walk{Decay::none, true}>());
  }
  if (problem.reads_before) return run(std::integral_constant<Walk, Walk{Decay::rows, false, true}>());
  if (rows) return run(std::integral_constant<Walk, Walk{Decay::rows}>());
  if (problem.transition == Transition::none) return run(std::integral_constant<Walk, Walk{Decay::none}>());
  run(std::integral_constant<Walk, Walk{Decay::scalar}>());
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
