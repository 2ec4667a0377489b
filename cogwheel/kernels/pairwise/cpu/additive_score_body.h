// The definitions of additive_score.h, read once per instruction set.
#pragma once
#include "cogwheel/kernels/cpu/vector.h"
#include "cogwheel/kernels/pairwise/cpu/additive_score.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Chains side by side: the tangents of one hide the latency of another's.
constexpr int score_vectors = 4;

// Tangents of one row at tangents + d·tangent_step.
template <class T, int vectors, bool keep>
HWY_NOINLINE void additive_row(std::int64_t inner, const T* query, std::int64_t query_inner, const T* panel,
                               std::int64_t panel_row, const T* weight, T* scores, [[maybe_unused]] T* tangents,
                               [[maybe_unused]] std::int64_t tangent_step) {
  using V = Vector<T>;
  V sum[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) sum[v] = V(T(0));
  for (std::int64_t d = 0; d < inner; ++d) {
    const V q(query[d * query_inner]), w(weight[d]);
    const T* keys = panel + d * panel_row;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const V tangent = V::tanh(q + V::load(keys + v * V::lanes));
      if constexpr (keep) tangent.store(tangents + d * tangent_step + v * V::lanes);
      sum[v] = V::fma(w, tangent, sum[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) sum[v].store(scores + v * V::lanes);
}

// Rows of one register tile of the engine; more come in several calls.
constexpr std::int64_t gradient_rows = 6;

template <class T, bool keep>
auto additive_row_of(std::int64_t vectors) {
  return vectors == 4   ? additive_row<T, 4, keep>
         : vectors == 3 ? additive_row<T, 3, keep>
         : vectors == 2 ? additive_row<T, 2, keep>
                        : additive_row<T, 1, keep>;
}

// Tangents of row r at tangents + d·tangent_step + r·vectors·lanes.
template <class T>
HWY_NOINLINE void add_gradients_of_rows(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                                        const AdditiveGradientOperands<T>& x, std::int64_t tangent_step) {
  using V = Vector<T>;
  for (std::int64_t d = 0; d < inner; ++d) {
    const V weight(x.weight[d]);
    V of_query[gradient_rows], of_weight(T(0));
    for (std::int64_t r = 0; r < rows; ++r) of_query[r] = V(T(0));
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t at = d * x.panel_row + v * V::lanes;
      V of_key(T(0));
      for (std::int64_t r = 0; r < rows; ++r) {
        const V tangent = V::load(x.tangents + d * tangent_step + (r * vectors + v) * V::lanes);
        const V gradient = V::load(x.score_gradients + r * x.panel_row + v * V::lanes);
        const auto none = gradient == V(T(0));  // 0·NaN is NaN
        const V derivative = V::select(none, V(T(0)), gradient * (V(T(1)) - tangent * tangent));
        of_query[r] = of_query[r] + derivative;
        of_key = of_key + derivative;
        of_weight = of_weight + V::select(none, V(T(0)), gradient * tangent);
      }
      V::fma(weight, of_key, V::load(x.key_gradient_panel + at)).store(x.key_gradient_panel + at);
    }
    for (std::int64_t r = 0; r < rows; ++r)
      x.query_gradient[r * x.query_gradient_row + d] += x.weight[d] * of_query[r].sum();
    x.weight_gradient[d] += static_cast<double>(of_weight.sum());
  }
}

}  // namespace

template <class T>
void additive_scores(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& x,
                     const T* weight, T* tangents) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  const std::int64_t kept_row = vectors * lanes;
  for (std::int64_t v = 0; v < vectors; v += score_vectors) {
    const auto width = std::min<std::int64_t>(score_vectors, vectors - v);
    const auto row = tangents ? additive_row_of<T, true>(width) : additive_row_of<T, false>(width);
    for (std::int64_t r = 0; r < rows; ++r)
      row(inner, x.a + r * x.a_row, x.a_inner, x.b + v * lanes, x.b_row, weight, x.c + r * x.c_row + v * lanes,
          tangents ? tangents + r * kept_row + v * lanes : nullptr, rows * kept_row);
  }
}

template <class T>
void add_additive_gradients(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                            const AdditiveGradientOperands<T>& whole) {
  const std::int64_t kept_row = vectors * Vector<T>::lanes;
  for (std::int64_t r = 0; r < rows; r += gradient_rows) {
    AdditiveGradientOperands<T> part = whole;
    part.tangents += r * kept_row;
    part.score_gradients += r * whole.panel_row;
    part.query_gradient += r * whole.query_gradient_row;
    add_gradients_of_rows(std::min(gradient_rows, rows - r), vectors, inner, part, rows * kept_row);
  }
}

#define COGWHEEL_ADDITIVE_SCORES(T)                                                                                    \
  template void additive_scores<T>(std::int64_t, std::int64_t, std::int64_t, const ProductOperands<T>&, const T*, T*); \
  template void add_additive_gradients<T>(std::int64_t, std::int64_t, std::int64_t, const AdditiveGradientOperands<T>&);
COGWHEEL_ADDITIVE_SCORES(float)
COGWHEEL_ADDITIVE_SCORES(double)
#undef COGWHEEL_ADDITIVE_SCORES

}  // namespace cogwheel::HWY_NAMESPACE
