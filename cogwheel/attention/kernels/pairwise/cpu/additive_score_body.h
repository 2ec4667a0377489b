// The definitions of additive_score.h, read once per instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"
#include "cogwheel/attention/kernels/pairwise/cpu/additive_score.h"
#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T>
constexpr std::int64_t in_whole_vectors_of(std::int64_t width) {
  return (width + Vector<T>::lanes - 1) / Vector<T>::lanes * Vector<T>::lanes;
}

// A row in whole vectors: 0 beyond its width.
template <class T>
struct PaddedRow {
  T values[in_whole_vectors_of<T>(max_head_dim)];

  PaddedRow(const T* from, std::int64_t width) {
    std::copy_n(from, width, values);
    std::fill_n(values + width, in_whole_vectors_of<T>(width) - width, T(0));
  }
};

template <class T, bool keep>
HWY_NOINLINE void scores_of_row(std::int64_t keys, std::int64_t width, const T* query, const T* key,
                                std::int64_t key_row, const T* weight, T* scores, [[maybe_unused]] T* tangents) {
  using V = Vector<T>;
  for (std::int64_t j = 0; j < keys; ++j) {
    const T* const k = key + j * key_row;
    [[maybe_unused]] T* const kept = keep ? tangents + j * width : nullptr;
    const auto add = [&](std::int64_t d, V sum) HWY_ATTR {
      const V tangent = V::tanh(V::load(query + d) + V::load(k + d));
      if constexpr (keep) tangent.store(kept + d);
      return V::fma(V::load(weight + d), tangent, sum);
    };
    // Two sums side by side: the tangents of one hide the latency of another's.
    V even(T(0)), odd(T(0));
    std::int64_t d = 0;
    for (; d + 2 * V::lanes <= width; d += 2 * V::lanes) even = add(d, even), odd = add(d + V::lanes, odd);
    if (d < width) even = add(d, even);
    scores[j] = (even + odd).sum();
  }
  std::fill(scores + keys, scores + in_whole_vectors_of<T>(keys), T(0));
}

// Rows whose sums are kept in registers; more come in several calls.
constexpr std::int64_t gradient_rows = 6;

// Of one key and `rows` rows, those that see it, all in whole vectors. Row i: tangents[i], ds[i], query_gradients[i].
template <class T, int rows>
HWY_NOINLINE void add_gradients_of_key(std::int64_t width, const T* const* tangents, const T* ds, const T* weight,
                                       T* const* query_gradients, T* key_gradient, T* weight_gradient) {
  using V = Vector<T>;
  V gradient[rows];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) gradient[r] = V(ds[r]);
  for (std::int64_t d = 0; d < width; d += V::lanes) {
    const V w = V::load(weight + d);
    V of_key(T(0)), of_weight = V::load(weight_gradient + d);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const V tangent = V::load(tangents[r] + d);
      const V derivative = gradient[r] * (V(T(1)) - tangent * tangent);
      V::fma(w, derivative, V::load(query_gradients[r] + d)).store(query_gradients[r] + d);
      of_key = of_key + derivative;
      of_weight = V::fma(gradient[r], tangent, of_weight);
    }
    V::fma(w, of_key, V::load(key_gradient + d)).store(key_gradient + d);
    of_weight.store(weight_gradient + d);
  }
}

template <class T>
constexpr decltype(&add_gradients_of_key<T, 1>) gradients_of_key_by_rows[gradient_rows] = {
    add_gradients_of_key<T, 1>, add_gradients_of_key<T, 2>, add_gradients_of_key<T, 3>,
    add_gradients_of_key<T, 4>, add_gradients_of_key<T, 5>, add_gradients_of_key<T, 6>};

}  // namespace

template <class T>
void additive_scores(std::int64_t rows, std::int64_t keys, std::int64_t inner, const AdditiveScoreOperands<T>& x) {
  const std::int64_t width = in_whole_vectors_of<T>(inner);
  const PaddedRow<T> weight(x.weight, inner);
  for (std::int64_t r = 0; r < rows; ++r) {
    const PaddedRow<T> query(x.query + r * x.query_row, inner);
    T* const scores = x.scores + r * x.score_row;
    if (x.tangents)
      scores_of_row<T, true>(keys, width, query.values, x.key, x.key_row, weight.values, scores,
                             x.tangents + r * keys * width);
    else
      scores_of_row<T, false>(keys, width, query.values, x.key, x.key_row, weight.values, scores, nullptr);
  }
}

template <class T>
void add_additive_gradients(std::int64_t rows, std::int64_t keys, std::int64_t inner,
                            const AdditiveGradientOperands<T>& x) {
  const std::int64_t width = in_whole_vectors_of<T>(inner);
  const PaddedRow<T> weight(x.weight, inner);
  T of_weight[in_whole_vectors_of<T>(max_head_dim)];
  std::fill_n(of_weight, width, T(0));
  for (std::int64_t first = 0; first < rows; first += gradient_rows)
    for (std::int64_t j = 0; j < keys; ++j) {
      const T* tangents[gradient_rows];
      T* query_gradients[gradient_rows];
      T ds[gradient_rows];
      std::int64_t seeing = 0;
      for (std::int64_t r = first; r < std::min(first + gradient_rows, rows); ++r) {
        const T gradient = x.score_gradients[r * x.score_row + j];
        if (gradient == T(0)) continue;  // 0·NaN is NaN
        tangents[seeing] = x.tangents + (r * keys + j) * width;
        query_gradients[seeing] = x.query_gradient + r * x.query_gradient_row;
        ds[seeing++] = gradient;
      }
      if (seeing > 0)
        gradients_of_key_by_rows<T>[seeing - 1](width, tangents, ds, weight.values, query_gradients,
                                                x.key_gradient + j * x.key_gradient_row, of_weight);
    }
  for (std::int64_t d = 0; d < inner; ++d) x.weight_gradient[d] += static_cast<double>(of_weight[d]);
}

#define COGWHEEL_ADDITIVE_SCORES(T)                                                                            \
  template void additive_scores<T>(std::int64_t, std::int64_t, std::int64_t, const AdditiveScoreOperands<T>&); \
  template void add_additive_gradients<T>(std::int64_t, std::int64_t, std::int64_t, const AdditiveGradientOperands<T>&);
COGWHEEL_ADDITIVE_SCORES(float)
COGWHEEL_ADDITIVE_SCORES(double)
#undef COGWHEEL_ADDITIVE_SCORES

}  // namespace cogwheel::HWY_NAMESPACE
