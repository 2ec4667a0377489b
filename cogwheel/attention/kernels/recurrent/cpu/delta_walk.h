// What the two directions of a delta rule's walk share. Of one head, with e_t the error of what the state recalls:
//   S'_t = A_t ∘ S_{t−1},   e_t = v_t − S'_tᵀ k_t,   u_t = β_t e_t,   S_t = S'_t + k_t u_tᵀ,   o_t = scale · S_tᵀ q_t
//
// u_t is needed before the state can change, and it needs the whole state. So a pass over the state goes from one token
// to the next: it writes what the token that it leaves writes, and reads what the one that it meets recalls.
// Columns are independent of each other, in both directions. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/recurrent/cpu/delta_crossings.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Columns of a block, in vectors: four arrays of them are held in registers, of 16 or of 32.
constexpr int delta_vectors = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
// Tokens whose decays are made together, and between the checkpoints of backward.
constexpr std::int64_t delta_chunk = 32;

// run(decay) with the kind of decay as a constant.
template <class Run>
void for_decay(Transition transition, const Run& run) {
  if (transition == Transition::none) return run(std::integral_constant<Decay, Decay::none>());
  if (transition == Transition::per_channel) return run(std::integral_constant<Decay, Decay::rows>());
  run(std::integral_constant<Decay, Decay::scalar>());
}

// Columns [first, first + columns) of a head's matrix [rows, width] as rows of `padded`, zeros beyond; null: zeros.
template <class T>
void load_columns(const T* matrix, std::int64_t rows, std::int64_t width, std::int64_t first, std::int64_t columns,
                  std::int64_t padded, T* to) {
  if (!matrix) return void(std::fill_n(to, rows * padded, T(0)));
  for (std::int64_t row = 0; row < rows; ++row)
    copy_padded(matrix + row * width + first, columns, padded, to + row * padded);
}
template <class T>
void store_columns(const T* from, std::int64_t rows, std::int64_t padded, std::int64_t width, std::int64_t first,
                   std::int64_t columns, T* matrix) {
  for (std::int64_t row = 0; row < rows; ++row) std::copy_n(from + row * padded, columns, matrix + row * width + first);
}

// run(vectors) with the width of a block of columns as a constant, the least that holds it.
template <class Run>
void for_block(std::int64_t columns, std::int64_t lanes, const Run& run) {
  if (columns <= lanes)
    run(std::integral_constant<int, 1>());
  else if (columns <= 2 * lanes)
    run(std::integral_constant<int, 2>());
  else
    run(std::integral_constant<int, delta_vectors>());
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
