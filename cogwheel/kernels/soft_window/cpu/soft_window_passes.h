// Both directions of Graves' window, one task for each entry of the batch. Included inside the region of a target.
#pragma once
#include "cogwheel/kernels/cpu/tile_product.h"
#include "cogwheel/kernels/cpu/vector.h"
#include "cogwheel/mechanisms/graves_window.h"

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
    product_of_any_width<T>(problem.steps, problem.width, length,
                            {.a = weights,
                             .a_row = columns,
                             .a_inner = 1,
                             .b = problem.values + entry * problem.positions * problem.width,
                             .b_row = problem.width,
                             .c = problem.window + entry * problem.steps * problem.width,
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
      // A bell that is infinite at a lane without a position would make 0·∞ of it.
      const V term = V::select_or_zero(V::lanes_within(0, present - u),
                                       V::load(of_weights + u) * GravesWindow::bell(beta, offset));
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
    const auto padded = static_cast<std::size_t>(columns + V::lanes);
    T* const of_weights = static_cast<T*>(thread_workspace(Scratch::task, padded * sizeof(T)));
    for (std::int64_t step = 0; step < problem.steps; ++step) {
      const std::int64_t row = entry * problem.steps + step;
      std::fill_n(of_weights, padded, T(0));
      if (problem.weights_gradient) std::copy_n(problem.weights_gradient + row * columns, present, of_weights);
      if (problem.window_gradient)
        for (std::int64_t u = 0; u < length; ++u)
          of_weights[u] += dot(problem.window_gradient + row * width, values + u * width, width);
      differentiate_components(problem, row * problem.components, present, of_weights);
    }
    if (!problem.values_gradient) return;
    T* const of_values = problem.values_gradient + entry * problem.positions * width;
    const std::int64_t written = problem.window_gradient ? length : 0;
    if (written > 0)
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
