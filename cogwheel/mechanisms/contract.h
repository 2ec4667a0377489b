// The pairwise contract: what a row map must say of itself.
//
// With s_j the visible scores of one query, c its row, θ the map's learnable scalars and w_j a multiplier that the
// engine brings (dropout, a Gaussian window):
//   a_j = w_j f(s_j; θ, c) / N(G; θ, c),   G = Σ_j g(s_j; θ, c),   o = Σ_j a_j v_j
// An engine keeps G and o per row and needs nothing else in either direction:
//   ∂L/∂s_j = ( w_j f′(s_j) (do·v_j) − (do·o) N′(G) g′(s_j) ) / N(G)
//   ∂L/∂θ   = ( Σ_j [ w_j f_θ(s_j) (do·v_j) − (do·o) N′(G) g_θ(s_j) ] − (do·o) N_θ(G) ) / N(G), summed over rows
//
// Every function of a map is a template over the lane type V, so that each instruction set compiles its own copy.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "cogwheel/mechanisms/lane.h"

namespace cogwheel {

// What one score contributes to its row: `weight` is f, `mass` is g.
template <class V>
struct Terms {
  V weight, mass;
};

// What a row knows of itself beyond its scores.
template <class V>
struct Row {
  V visible;  // number of keys that the query sees
  V shift;    // running maximum m of the energy; 0 for maps without one
};

// The normaliser N and its slope dN/dG.
template <class V>
struct Normalizer {
  V value, slope;
};

template <class Map, class V>
concept RowMap = requires(const Map map, V x, Row<V> row) {
  { map.terms(x, row) } -> std::same_as<Terms<V>>;   // f and g at a score
  { map.slopes(x, row) } -> std::same_as<Terms<V>>;  // f′ and g′ at a score
  { map.normalizer(x, row) } -> std::same_as<Normalizer<V>>;
};

// An energy map grows like exp(energy). The engine bounds the energy by its running maximum and rescales f, g and N
// together, so that the largest exponent is 0. Such a map is finite at any finite score.
template <class Map, class V>
concept EnergyMap = RowMap<Map, V> && requires(const Map map, V x) {
  { map.energy(x) } -> std::same_as<V>;
};

// Where the running maximum starts, for energy maps with a term of their own in N (a sink).
template <class Map, class V>
concept SinkMap = EnergyMap<Map, V> && requires(const Map map) {
  { map.template initial_energy<V>() } -> std::same_as<V>;
};

// A map with learnable scalars θ, one set per head. It is made from them by `with`, and says how f, g and N move with
// each. The names are the names of the arguments that users pass.
template <class Map, class V>
concept LearnableMap = RowMap<Map, V> &&
    requires(const Map map, V x, Row<V> row, std::array<double, Map::parameter_names.size()> theta) {
  { Map::with(theta) } -> std::same_as<Map>;
  { map.parameter_slopes(x, row) } -> std::same_as<std::array<Terms<V>, Map::parameter_names.size()>>;  // f_θ and g_θ
  { map.normalizer_parameter_slopes(x, row) } -> std::same_as<std::array<V, Map::parameter_names.size()>>;  // N_θ
};

// N = G, the usual case.
struct NormalizedByMass {
  template <class V>
  static constexpr Normalizer<V> normalizer(V mass, Row<V>) {
    return {mass, V(1)};
  }
};

// N = max(G, least): where nothing was weighed, the row is 0 rather than 0/0. `least` lies far below any sum that means
// something, so that it never bends a row that has weights.
template <class V>
constexpr Normalizer<V> at_least(V mass, double least) {
  const V floor = lane::constant<V>(least);
  return {lane::select(mass > floor, mass, floor), lane::select(mass > floor, V(1), V(0))};
}

}  // namespace cogwheel
