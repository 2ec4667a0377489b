// Every row map as device code: one kernel for each map and type, which calls all that the contract names. Compiled
// where nvcc is installed (tests/python/test_device_headers.py), never run: what this guards is that a header stays
// free of what only a host has.
#include <array>
#include <cstddef>

#include "cogwheel/mechanisms/derivatives/differentiated.h"
#include "row_maps.h"  // generated: the headers, and COGWHEEL_ROW_MAPS(apply) with one apply(Map) for each

namespace cogwheel {

// Thread t takes score t and adds up everything that the map says of it.
template <class Map, class V>
__global__ void exercise(const double* theta, const V* score, const V* mass, Row<V> row, V* sum) {
  static_assert(RowMap<Map, V>);
  Differentiated<Map> map;
  if constexpr (LearnableMap<Map>)
    for (std::size_t p = 0; p < map.theta.size(); ++p) map.theta[p] = theta[p];
  const V s = score[threadIdx.x];
  if constexpr (EnergyMap<Map, V>) row.shift += map.energy(s);
  if constexpr (SinkMap<Map, V>) row.shift += map.template initial_energy<V>();
  const TermsWithSlopes<V, parameter_count<Map>> at = map.terms_with_slopes(s, row);
  const NormalizerWithSlopes<V, parameter_count<Map>> normalizer = map.normalizer_with_slopes(mass[threadIdx.x], row);
  V total = at.terms.weight + at.terms.mass + at.slopes.weight + at.slopes.mass + normalizer.value + normalizer.slope;
  if constexpr (LearnableMap<Map>)
    for (std::size_t p = 0; p < map.theta.size(); ++p)
      total += at.parameter_slopes[p].weight + at.parameter_slopes[p].mass + normalizer.parameter_slopes[p];
  sum[threadIdx.x] = total;
}

#define INSTANTIATE(Map)                                                                                        \
  template __global__ void exercise<Map, float>(const double*, const float*, const float*, Row<float>, float*); \
  template __global__ void exercise<Map, double>(const double*, const double*, const double*, Row<double>, double*);
COGWHEEL_ROW_MAPS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace cogwheel
