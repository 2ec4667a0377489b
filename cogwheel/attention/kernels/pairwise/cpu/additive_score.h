// The additive score of a tile, s_ij = Σ_d v_d tanh(q_id + k_jd), and its gradients.
//
//   Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate" (2014), whose
//   W s and U h are q and k here: projected by the caller.
//
// It replaces the product of queries and keys. Lanes lie along d, so that keys are read as they are, not transposed.
// With t_ijd = tanh(q_id + k_jd) and ds the gradient of the scores:
//   dq_id = v_d Σ_j ds_ij (1 − t_ijd²),   dk_jd = v_d Σ_i ds_ij (1 − t_ijd²),   dv_d = Σ_ij ds_ij t_ijd
// Backward computes the scores of a tile again and keeps its t until their gradients are known, so that nothing of size
// queries × keys × head_dim is ever held. A tile costs rows · keys · head_dim hyperbolic tangents in either direction,
// each about twenty instructions and a division where a product has one instruction.
// Compiled once per instruction set and type in additive_score.cpp.in.
#pragma once
#include <cstdint>

namespace cogwheel::HWY_NAMESPACE {

template <class T>
struct AdditiveScoreOperands {
  const T* query;  // row r at query + r·query_row
  std::int64_t query_row;
  const T* key;  // row j at key + j·key_row, in whole vectors: 0 beyond inner
  std::int64_t key_row;
  const T* weight;  // v [inner]
  T* scores;        // row r at scores + r·score_row, in whole vectors: 0 beyond the keys
  std::int64_t score_row;
  T* tangents;  // t as [rows][keys][inner, in whole vectors], where not null
};

// rows × keys scores. Each is a sum in an order that follows from `inner` alone: the same bits in any tile.
template <class T>
void additive_scores(std::int64_t rows, std::int64_t keys, std::int64_t inner,
                     const AdditiveScoreOperands<T>& operands);

template <class T>
struct AdditiveGradientOperands {
  const T* tangents;         // as additive_scores left them
  const T* score_gradients;  // ds, row r at score_gradients + r·score_row; 0 where a key is hidden
  std::int64_t score_row;
  const T* weight;    // v [inner]
  T* query_gradient;  // row r at query_gradient + r·query_gradient_row, in whole vectors
  std::int64_t query_gradient_row;
  T* key_gradient;  // row j at key_gradient + j·key_gradient_row, in whole vectors
  std::int64_t key_gradient_row;
  double* weight_gradient;  // [inner]
};

// Adds the gradients of rows × keys scores to those of queries, keys and v. A key that is hidden from a row, where ds
// is 0, adds nothing, even if it is NaN or infinite. The order of sums follows from rows, keys and inner alone.
template <class T>
void add_additive_gradients(std::int64_t rows, std::int64_t keys, std::int64_t inner,
                            const AdditiveGradientOperands<T>& operands);

}  // namespace cogwheel::HWY_NAMESPACE
