// Every row map as device code: one kernel for each map and type, which calls everything in the contract. Compiled
// where nvcc is installed (tests/python/test_device_headers.py), which checks that headers use nothing that only a host
// has. As a program it runs each kernel and says how far its numbers are from the host's.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "cogwheel/attention/mechanisms/derivatives/differentiated.h"
#include "row_maps.h"  // generated: the headers, and COGWHEEL_ROW_MAPS(apply) with one apply(Map) for each

namespace cogwheel {

// All values of the map at a score, added up.
template <class Map, class V>
constexpr V sum_at(const double* theta, V s, V mass, Row<V> row) {
  static_assert(RowMap<Map, V>);
  Differentiated<Map> map;
  if constexpr (LearnableMap<Map>)
    for (std::size_t p = 0; p < map.theta.size(); ++p) map.theta[p] = theta[p];
  if constexpr (EnergyMap<Map, V>) row.shift += map.energy(s);
  if constexpr (SinkMap<Map, V>) row.shift += map.template initial_energy<V>();
  const TermsWithDerivatives<V, parameter_count<Map>> at = map.terms_with_derivatives(s, row);
  const NormalizerWithDerivatives<V, parameter_count<Map>> normalizer = map.normalizer_with_derivatives(mass, row);
  V total = at.terms.weight + at.terms.mass + at.derivatives.weight + at.derivatives.mass + normalizer.value +
            normalizer.derivative;
  if constexpr (LearnableMap<Map>)
    for (std::size_t p = 0; p < map.theta.size(); ++p)
      total +=
          at.parameter_derivatives[p].weight + at.parameter_derivatives[p].mass + normalizer.parameter_derivatives[p];
  return total;
}

// Thread t takes score t.
template <class Map, class V>
__global__ void exercise(const double* theta, const V* score, const V* mass, Row<V> row, V* sum) {
  sum[threadIdx.x] = sum_at<Map, V>(theta, score[threadIdx.x], mass[threadIdx.x], row);
}

#define INSTANTIATE(Map)                                                                                        \
  template __global__ void exercise<Map, float>(const double*, const float*, const float*, Row<float>, float*); \
  template __global__ void exercise<Map, double>(const double*, const double*, const double*, Row<double>, double*);
COGWHEEL_ROW_MAPS(INSTANTIATE)
#undef INSTANTIATE

namespace {

void expect(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "row_maps_on_device: expected a device, got %s\n", cudaGetErrorString(status));
  std::exit(2);
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* there = nullptr;
  expect(cudaMalloc(&there, std::max<std::size_t>(1, values.size()) * sizeof(T)));
  expect(cudaMemcpy(there, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return there;
}

// Relative to the larger of the host's sum and 1.
template <class Map, class V>
bool agrees(const char* name) {
  constexpr int scores = 64;
  const std::vector<double> theta(parameter_count<Map>, 0.75);
  std::vector<V> score, mass, sum(scores);
  for (int i = 0; i < scores; ++i) {
    score.push_back(V(i - scores / 2) / 8 + V(1) / 16);
    mass.push_back(V(1 + i) / 4);
  }
  const Row<V> row{V(7), V(0.25)};
  V* const sums = on_device(sum);
  exercise<Map, V><<<1, scores>>>(on_device(theta), on_device(score), on_device(mass), row, sums);
  expect(cudaGetLastError());
  expect(cudaMemcpy(sum.data(), sums, scores * sizeof(V), cudaMemcpyDeviceToHost));
  V largest = 0;
  for (int i = 0; i < scores; ++i) {
    const V host = sum_at<Map, V>(theta.data(), score[i], mass[i], row);
    if (std::isnan(host) && std::isnan(sum[i])) continue;
    const V difference = std::abs(sum[i] - host) / std::max(V(1), std::abs(host));
    largest = difference == difference ? std::max(largest, difference) : INFINITY;
  }
  const bool close = largest <= (std::is_same_v<V, float> ? V(1e-5) : V(1e-13));
  std::printf("%s %s %.1e %s\n", name, std::is_same_v<V, float> ? "float32" : "float64", double(largest),
              close ? "agrees" : "DIFFERS");
  return close;
}

}  // namespace
}  // namespace cogwheel

int main() {
  bool all = true;
#define COMPARE(Map)                                         \
  all = cogwheel::agrees<cogwheel::Map, float>(#Map) && all; \
  all = cogwheel::agrees<cogwheel::Map, double>(#Map) && all;
  COGWHEEL_ROW_MAPS(COMPARE)
#undef COMPARE
  return all ? 0 : 1;
}
