// Every row map as device code: one kernel for each map and type, which calls everything in the contract. Compiled
// where nvcc is installed (tests/python/test_device_headers.py), never run: it checks that headers use nothing that only
// a host has.
#include <array>
#include <cstddef>

#include "cogwheel/attention/mechanisms/derivatives/differentiated.h"
#include "row_maps.h"  // generated: the headers, and COGWHEEL_ROW_MAPS(apply) with one apply(Map) for each

namespace cogwheel {

// Thread t takes score t and adds up all values of the map there.
template <class Map, class V>
__global__ void exercise(const double* theta, const V* score, const V* mass, Row<V> row, V* sum) {
  static_assert(RowMap<Map, V>);
  Differentiated<Map> map;
  if constexpr (LearnableMap<Map>)
    for (std::size_t p = 0; p < map.theta.size(); ++p) map.theta[p] = theta[p];
  const V s = score[threadIdx.x];
  if constexpr (EnergyMap<Map, V>) row.shift += map.energy(s);
  if constexpr (SinkMap<Map, V>) row.shift += map.template initial_energy<V>();
  const TermsWithDerivatives<V, parameter_count<Map>> at = map.terms_with_derivatives(s, row);
  const NormalizerWithDerivatives<V, parameter_count<Map>> normalizer = map.normalizer_with_derivatives(mass[threadIdx.x], row);
  V total = at.terms.weight + at.terms.mass + at.derivatives.weight + at.derivatives.mass + normalizer.value + normalizer.derivative;
  if constexpr (LearnableMap<Map>)
    for (std::size_t p = 0; p < map.theta.size(); ++p)
      total += at.parameter_derivatives[p].weight + at.parameter_derivatives[p].mass + normalizer.parameter_derivatives[p];
  sum[threadIdx.x] = total;
}

#define INSTANTIATE(Map)                                                                                        \
  template __global__ void exercise<Map, float>(const double*, const float*, const float*, Row<float>, float*); \
  template __global__ void exercise<Map, double>(const double*, const double*, const double*, Row<double>, double*);
COGWHEEL_ROW_MAPS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace cogwheel
