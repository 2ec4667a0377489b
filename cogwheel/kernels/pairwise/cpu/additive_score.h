// The additive score of a tile, s_ij = Σ_d v_d tanh(q_id + k_jd), and its gradients.
//
//   Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate" (2014), whose
//   W s and U h are q and k here: projected by the caller.
//
// It replaces the product of queries and keys and has the same layout: rows of queries, a panel of 64
// transposed keys. With t_ijd = tanh(q_id + k_jd) and ds the gradient of the scores:
//   dq_id = v_d Σ_j ds_ij (1 − t_ijd²),   dk_jd = v_d Σ_i ds_ij (1 − t_ijd²),   dv_d = Σ_ij ds_ij t_ijd
// Backward computes the scores of a tile again and keeps its t until their gradients are known, so that nothing of size
// queries × keys × head_dim is ever held. A tile costs rows · keys · head_dim hyperbolic tangents in either direction,
// each about twenty instructions and a division where a product has one instruction.
// Compiled once per instruction set and type in additive_score.cpp.in.
#pragma once
#include <cstdint>

#include "cogwheel/kernels/cpu/tile_product.h"

namespace cogwheel::HWY_NAMESPACE {

// rows × (vectors · lanes) scores in `operands.c`: a are the queries, b the key panel, `weight` v [inner]. Each score
// is one chain of fused multiply-adds in the order of `inner`, whatever the tile. `tangents`, where not null, takes t
// as [inner][rows][vectors · lanes].
template <class T>
void additive_scores(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& operands,
                     const T* weight, T* tangents = nullptr);

template <class T>
struct AdditiveGradientOperands {
  const T* tangents;         // as additive_scores left them
  const T* score_gradients;  // ds, row r at score_gradients + r·panel_row; 0 where a key is hidden
  const T* weight;           // v [inner]
  T* query_gradient;         // row r at query_gradient + r·query_gradient_row
  std::int64_t query_gradient_row;
  T* key_gradient_panel;    // [inner][panel_row]
  double* weight_gradient;  // [inner]
  std::int64_t panel_row;   // 64
};

// Adds the gradients of rows × (vectors · lanes) scores to those of queries, keys and v. A key that is hidden from a
// row, where ds is 0, adds nothing, even if it is NaN or infinite. The order of sums follows from rows, vectors and
// inner alone.
template <class T>
void add_additive_gradients(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                            const AdditiveGradientOperands<T>& operands);

}  // namespace cogwheel::HWY_NAMESPACE
