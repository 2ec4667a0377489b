// Both directions of Graves' window, one task for each entry of the batch. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/cpu/vector.h"
#include "cogwheel/attention/mechanisms/graves_window.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// The positions first + 1, first + 2, … of a vector's lanes.
template <class T>
HWY_INLINE Vector<T> positions_after(std::int64_t first) {
  return Vector<T>(hn::Iota(hn::ScalableTag<T>(), static_cast<T>(first + 1)));
}

// C = A·B for rows of B and C that lie as they are, whose last columns may not fill a vector.
template <class T>
void product_of_any_width(std::int64_t rows, std::int64_t width, std::int64_t inner, const ProductOperands<T>& x) {
  const std::int64_t vectors = width / Vector<T>::lanes;
  product<T>(rows, vectors, inner, x);
  for (std::int64_t column = vectors * Vector<T>::lanes; column < width; ++column)
    for (std::int64_t row = 0; row < rows; ++row) {
      T sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += x.a[row * x.a_row + k * x.a_inner] * x.b[k * x.b_row + column];
      x.c[row * x.c_row + column] = sum;
    }
}

template <class T>
T dot(const T* a, const T* b, std::int64_t width) {
  using V = Vector<T>;
  constexpr int chains = 4;
  V sums[chains] = {V(T(0)), V(T(0)), V(T(0)), V(T(0))};
  std::int64_t i = 0;
  for (; i + chains * V::lanes <= width; i += chains * V::lanes)
#pragma GCC unroll 4
    for (int c = 0; c < chains; ++c)
      sums[c] = V::fma(V::load(a + i + c * V::lanes), V::load(b + i + c * V::lanes), sums[c]);
  for (; i + V::lanes <= width; i += V::lanes) sums[0] = V::fma(V::load(a + i), V::load(b + i), sums[0]);
  T sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
  for (; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

// w = Σ_u φ_u v_u. Rows of values are read from end to end, a few beside each other, as memory is fastest; each element
// is one chain of additions in the order of positions.
template <class T, int rows>
HWY_NOINLINE void add_rows(const T* weights, const T* values, std::int64_t width, T* window) {
  using V = Vector<T>;
  V factors[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) factors[r] = V(weights[r]);
  std::int64_t i = 0;
  for (; i + V::lanes <= width; i += V::lanes) {
    V sum = V::load(window + i);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) sum = V::fma(factors[r], V::load(values + r * width + i), sum);
    sum.store(window + i);
  }
  for (; i < width; ++i)
    for (int r = 0; r < rows; ++r) window[i] += weights[r] * values[r * width + i];
}
template <class T>
void weighted_sum(const T* weights, const T* values, std::int64_t length, std::int64_t width, T* window) {
  std::fill_n(window, width, T(0));
  std::int64_t u = 0;
  for (; u + 4 <= length; u += 4) add_rows<T, 4>(weights + u, values + u * width, width, window);
  for (; u < length; ++u) add_rows<T, 1>(weights + u, values + u * width, width, window);
}

// dw·v, and φ dw into `of_value`, in one pass over the row.
template <class T>
HWY_NOINLINE T dot_and_scale(const T* of_window, const T* value, T weight, std::int64_t width, T* of_value) {
  using V = Vector<T>;
  const V factor(weight);
  V sums[2] = {V(T(0)), V(T(0))};
  std::int64_t i = 0;
  for (; i + 2 * V::lanes <= width; i += 2 * V::lanes)
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
      const V given = V::load(of_window + i + c * V::lanes);
      sums[c] = V::fma(given, V::load(value + i + c * V::lanes), sums[c]);
      (factor * given).store(of_value + i + c * V::lanes);
    }
  T sum = (sums[0] + sums[1]).sum();
  for (; i < width; ++i) {
    sum += of_window[i] * value[i];
    of_value[i] = weight * of_window[i];
  }
  return sum;
}

template <class T>
void soft_window_forward(const SoftWindowForward<T>& problem, const Executor& executor) {
  using V = Vector<T>;
  const std::int64_t columns = problem.positions + 1, components = problem.components;
  executor.run(problem.batch, [&](std::int64_t entry, int) {
    const std::int64_t length = problem.length(entry), present = length + 1;
    T* const weights = problem.weights + entry * problem.steps * columns;
    for (std::int64_t step = 0; step < problem.steps; ++step) {
      const std::int64_t first = (entry * problem.steps + step) * components;
      T* const row = weights + step * columns;
      std::fill(row + present, row + columns, T(0));
      for (std::int64_t u = 0; u < present; u += V::lanes) {
        const V position = positions_after<T>(u);
        V sum(T(0));
        for (std::int64_t k = first; k < first + components; ++k)
          sum =
              V::fma(V(problem.alpha[k]), GravesWindow::bell(V(problem.beta[k]), V(problem.kappa[k]) - position), sum);
        T some[V::lanes];
        sum.store(some);
        std::copy_n(some, std::min<std::int64_t>(V::lanes, present - u), row + u);
      }
    }
    const T* const values = problem.values + entry * problem.positions * problem.width;
    T* const window = problem.window + entry * problem.steps * problem.width;
    if (problem.steps == 1) return weighted_sum(weights, values, length, problem.width, window);
    product_of_any_width<T>(problem.steps, problem.width, length,
                            {.a = weights,
                             .a_row = columns,
                             .a_inner = 1,
                             .b = values,
                             .b_row = problem.width,
                             .c = window,
                             .c_row = problem.width});
  });
}

// Of α, β and κ of one step, from that of φ, 0 at lanes without a position.
template <class T>
void differentiate_components(const SoftWindowBackward<T>& problem, std::int64_t first, std::int64_t present,
                              const T* of_weights) {
  using V = Vector<T>;
  for (std::int64_t k = first; k < first + problem.components; ++k) {
    const V beta(problem.beta[k]), kappa(problem.kappa[k]);
    V plain(T(0)), linear(T(0)), square(T(0));
    for (std::int64_t u = 0; u < present; u += V::lanes) {
      const V offset = kappa - positions_after<T>(u);
      const V term = V::load(of_weights + u) * GravesWindow::bell(beta, offset);
      const V moment = term * offset;
      plain = plain + term;
      linear = linear + moment;
      square = V::fma(moment, offset, square);
    }
    const T alpha = problem.alpha[k];
    problem.alpha_gradient[k] = plain.sum();
    problem.beta_gradient[k] = -alpha * square.sum();
    problem.kappa_gradient[k] = T(-2) * alpha * problem.beta[k] * linear.sum();
  }
}

template <class T>
void soft_window_backward(const SoftWindowBackward<T>& problem, const Executor& executor) {
  using V = Vector<T>;
  const std::int64_t columns = problem.positions + 1, width = problem.width;
  executor.run(problem.batch, [&](std::int64_t entry, int) {
    const std::int64_t length = problem.length(entry), present = length + 1;
    const T* const values = problem.values + entry * problem.positions * width;
    T* const of_values =
        problem.values_gradient ? problem.values_gradient + entry * problem.positions * width : nullptr;
    // Of a single step both gradients come of one pass over the values.
    const bool together = problem.steps == 1 && of_values && problem.window_gradient;
    const auto padded = static_cast<std::size_t>(columns + V::lanes);
    T* const of_weights = static_cast<T*>(thread_workspace(Scratch::task, padded * sizeof(T)));
    for (std::int64_t step = 0; step < problem.steps; ++step) {
      const std::int64_t row = entry * problem.steps + step;
      std::fill_n(of_weights, padded, T(0));
      if (problem.weights_gradient) std::copy_n(problem.weights_gradient + row * columns, present, of_weights);
      if (problem.window_gradient)
        for (std::int64_t u = 0; u < length; ++u)
          of_weights[u] += together ? dot_and_scale(problem.window_gradient + row * width, values + u * width,
                                                    problem.weights[row * columns + u], width, of_values + u * width)
                                    : dot(problem.window_gradient + row * width, values + u * width, width);
      differentiate_components(problem, row * problem.components, present, of_weights);
    }
    if (!of_values) return;
    const std::int64_t written = problem.window_gradient ? length : 0;
    if (written > 0 && !together)
      product_of_any_width<T>(written, width, problem.steps,
                              {.a = problem.weights + entry * problem.steps * columns,
                               .a_row = 1,
                               .a_inner = columns,
                               .b = problem.window_gradient + entry * problem.steps * width,
                               .b_row = width,
                               .c = of_values,
                               .c_row = width});
    std::fill(of_values + written * width, of_values + problem.positions * width, T(0));
  });
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
