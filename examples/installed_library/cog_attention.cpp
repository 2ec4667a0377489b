// Cog attention forward and backward on plain memory, without libtorch: pointers, sizes, strides and an executor.
#include <cogwheel/attention/kernels/pairwise/pairwise.h>
#include <cogwheel/core/openmp_executor.h>

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

int main() {
  constexpr int queries = 5, keys = 7, head_dim = 8, value_dim = 3;
  const auto wave = [](int size, double step) {
    std::vector<double> values(size);
    for (int i = 0; i < size; ++i) values[i] = std::sin(1 + step * i);
    return values;
  };
  const auto query = wave(queries * head_dim, 0.7), key = wave(keys * head_dim, 1.3),
             value = wave(keys * value_dim, 2.1);
  const auto output_gradient = wave(queries * value_dim, 0.9);
  std::vector<double> output(queries * value_dim);
  std::vector<double> shift(queries), mass(queries);  // of each row: maximum exponent, total
  std::vector<double> query_gradient(query.size()), key_gradient(key.size()), value_gradient(value.size());

  // One batch entry, one head; what is contiguous needs only the stride of a row.
  const auto matrix = [](auto* data, int width) { return cogwheel::HeadsView{data, 0, 0, width}; };
  const cogwheel::PairwiseProblem<double> problem{
      .shape = {.queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim},
      .visibility = {.rule = {.keys = keys, .causal = true, .diagonal = keys - queries}},
      .scale = 1 / std::sqrt(double(head_dim)),
      .query = matrix(query.data(), head_dim),
      .key = matrix(key.data(), head_dim),
      .value = matrix(value.data(), value_dim)};

  const auto kernel = cogwheel::pairwise_kernel<double>("cog");
  const cogwheel::OpenMPExecutor threads;
  kernel.forward({problem, matrix(output.data(), value_dim), shift.data(), mass.data()}, threads);
  kernel.backward({problem, matrix(std::as_const(output).data(), value_dim), matrix(output_gradient.data(), value_dim),
                   shift.data(), mass.data(), matrix(query_gradient.data(), head_dim),
                   matrix(key_gradient.data(), head_dim), matrix(value_gradient.data(), value_dim)},
                  threads);

  for (const auto* numbers : {&output, &query_gradient, &key_gradient, &value_gradient}) {
    for (const double number : *numbers) std::printf("%.17g ", number);
    std::printf("\n");
  }
}
