// A matrix, the few products that the demos need, and one head of attention on Cogwheel's kernels.
#pragma once
#include <cogwheel/attention/kernels/pairwise/pairwise.h>
#include <cogwheel/core/openmp_executor.h>

#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

struct Matrix {
  int rows, columns;
  std::vector<double> values = std::vector<double>(static_cast<std::size_t>(rows) * columns);
  double& operator()(int i, int j) { return values[static_cast<std::size_t>(i) * columns + j]; }
  double operator()(int i, int j) const { return values[static_cast<std::size_t>(i) * columns + j]; }
};

// Numbers that look random, of mean 0 and variance 1; waves.py makes the same.
inline Matrix waves(int rows, int columns, int seed, double scale = 1) {
  Matrix x{rows, columns};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double wave = std::sin(12.9898 * static_cast<double>(i) + 78.233 * seed) * 43758.5453;
    x.values[i] = scale * std::sqrt(12.0) * (wave - std::floor(wave) - 0.5);
  }
  return x;
}

inline Matrix identity(int size) {
  Matrix x{size, size};
  for (int i = 0; i < size; ++i) x(i, i) = 1;
  return x;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns};
  for (int i = 0; i < a.rows; ++i)
    for (int k = 0; k < a.columns; ++k)
      for (int j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

inline double largest_difference(const Matrix& a, const Matrix& b, int rows) {
  double largest = 0;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < a.columns; ++j) largest = std::fmax(largest, std::abs(a(i, j) - b(i, j)));
  return largest;
}

// query [N, D], key [M, D], value [M, Dv] → [N, Dv]
inline Matrix attend(std::string_view mechanism, const Matrix& query, const Matrix& key, const Matrix& value,
                     bool causal, double scale) {
  Matrix output{query.rows, value.columns};
  std::vector<double> shift(query.rows), mass(query.rows);  // of each row: maximum exponent, total
  const auto rows = [](auto& matrix) { return cogwheel::HeadsView{matrix.values.data(), 0, 0, matrix.columns}; };
  cogwheel::PairwiseForward<double> problem;
  problem.shape = {.queries = query.rows, .keys = key.rows, .head_dim = query.columns, .value_dim = value.columns};
  problem.visibility.rule = {.keys = key.rows, .causal = causal, .diagonal = key.rows - query.rows};
  problem.scale = scale;
  problem.query = rows(query), problem.key = rows(key), problem.value = rows(value);
  problem.output = rows(output), problem.shift = shift.data(), problem.mass = mass.data();
  cogwheel::pairwise_kernel<double>(mechanism).forward(problem, cogwheel::OpenMPExecutor());
  return output;
}

// The weights themselves: what attention makes of the identity.
inline Matrix weights(std::string_view mechanism, const Matrix& query, const Matrix& key, bool causal, double scale) {
  return attend(mechanism, query, key, identity(key.rows), causal, scale);
}
