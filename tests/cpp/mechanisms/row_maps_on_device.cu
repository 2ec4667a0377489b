// Every row map as device code: one kernel for each map and type, which calls all that the contract names. Compiled
// where nvcc is installed (tests/python/test_device_headers.py), never run: what this guards is that a header stays
// free of what only a host has.
#include <array>
#include <cstddef>

#include "cogwheel/mechanisms/contract.h"
#include "row_maps.h"  // generated: the headers, and COGWHEEL_ROW_MAPS(apply) with one apply(Map) for each

namespace cogwheel {

template <class Map, class V>
__device__ Map made_from(const double* theta) {
  if constexpr (LearnableMap<Map, V>) {
    std::array<double, Map::parameter_names.size()> values{};
    for (std::size_t p = 0; p < values.size(); ++p) values[p] = theta[p];
    return Map::with(values);
  } else {
    return Map{};
  }
}

// Thread t takes score t and adds up everything that the map says of it.
template <class Map, class V>
__global__ void exercise(const double* theta, const V* score, const V* mass, Row<V> row, V* sum) {
  static_assert(RowMap<Map, V>);
  const Map map = made_from<Map, V>(theta);
  const V s = score[threadIdx.x];
  if constexpr (EnergyMap<Map, V>) row.shift += map.energy(s);
  if constexpr (SinkMap<Map, V>) row.shift += map.template initial_energy<V>();
  const Terms<V> terms = map.terms(s, row), slopes = map.slopes(s, row);
  const Normalizer<V> normalizer = map.normalizer(mass[threadIdx.x], row);
  V total = terms.weight + terms.mass + slopes.weight + slopes.mass + normalizer.value + normalizer.slope;
  if constexpr (LearnableMap<Map, V>) {
    for (const Terms<V>& slope : map.parameter_slopes(s, row)) total += slope.weight + slope.mass;
    for (const V slope : map.normalizer_parameter_slopes(mass[threadIdx.x], row)) total += slope;
  }
  sum[threadIdx.x] = total;
}

#define INSTANTIATE(Map)                                                                                        \
  template __global__ void exercise<Map, float>(const double*, const float*, const float*, Row<float>, float*); \
  template __global__ void exercise<Map, double>(const double*, const double*, const double*, Row<double>, double*);
COGWHEEL_ROW_MAPS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace cogwheel
