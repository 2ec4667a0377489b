// The pairwise contract: what a row map must say of itself.
//
// With s_j the visible scores of one query, c its row, θ the map's learnable scalars and w_j a multiplier that the
// engine brings (dropout, a Gaussian window):
//   a_j = w_j f(s_j; θ, c) / N(G; θ, c),   G = Σ_j g(s_j; θ, c),   o = Σ_j a_j v_j
// An engine keeps G and o per row and needs nothing else in either direction:
//   ∂L/∂s_j = ( w_j f′(s_j) (do·v_j) − (do·o) N′(G) g′(s_j) ) / N(G)
//   ∂L/∂θ   = ( Σ_j [ w_j f_θ(s_j) (do·v_j) − (do·o) N′(G) g_θ(s_j) ] − (do·o) N_θ(G) ) / N(G), summed over rows
//
// A map says f, g and N; their derivatives follow from the same code (differentiated.h). Every function of a map is a
// template over the lane type V, so that each instruction set compiles its own copy and dual numbers pass through it.
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

// What a row knows of itself beyond its scores. Neither has a slope.
template <class V>
struct Row {
  V visible;  // number of keys that the query sees
  V shift;    // running maximum m of the energy; 0 for maps without one
};

// A map with learnable scalars θ, one set per head, names them: these are the names of the arguments that users pass.
//   static constexpr std::array<std::string_view, 2> parameter_names{"beta", "gamma"};
// Each of its functions may then take θ, a std::array<V, 2>, as its last argument.
template <class Map>
inline constexpr std::size_t parameter_count = 0;
template <class Map>
requires requires { Map::parameter_names.size(); }
inline constexpr std::size_t parameter_count<Map> = Map::parameter_names.size();

template <class Map>
concept LearnableMap = (parameter_count<Map> > 0);

template <class Map, class V>
using Theta = std::array<V, parameter_count<Map>>;

// f and g at a score, N at a mass.
template <class Map, class V>
concept RowMap = (
                     requires(const Map map, V x, Row<V> row, Theta<Map, V> theta) {
                       { map.terms(x, row, theta) } -> std::same_as<Terms<V>>;
                     } ||
                     requires(const Map map, V x, Row<V> row) {
                       { map.terms(x, row) } -> std::same_as<Terms<V>>;
                     }) &&
                 (
                     requires(const Map map, V x, Row<V> row, Theta<Map, V> theta) {
                       { map.normalizer(x, row, theta) } -> std::same_as<V>;
                     } ||
                     requires(const Map map, V x, Row<V> row) {
                       { map.normalizer(x, row) } -> std::same_as<V>;
                     });

// An energy map grows like exp(energy). The engine bounds the energy by its running maximum and rescales f, g and N
// together, by exp(−shift), so that the largest exponent is 0. Such a map is finite at any finite score.
template <class Map, class V>
concept EnergyMap = RowMap<Map, V> &&(
    requires(const Map map, V x, Theta<Map, V> theta) {
      { map.energy(x, theta) } -> std::same_as<V>;
    } ||
    requires(const Map map, V x) {
      { map.energy(x) } -> std::same_as<V>;
    });

// Where the running maximum starts, for energy maps with a term of their own in N (a sink).
template <class Map, class V>
concept SinkMap = EnergyMap<Map, V> && requires(const Map map, Theta<Map, V> theta) {
  { map.initial_energy(theta) } -> std::same_as<V>;
};

// A map whose slopes f′ and g′ are not those of dual numbers brings them, where a kink, accuracy or speed asks for it.
// Its second derivatives are then those of its slopes.
template <class Map, class V>
concept MapWithSlopes = requires(const Map map, V x, Row<V> row, Theta<Map, V> theta) {
  { map.slopes(x, row, theta) } -> std::same_as<Terms<V>>;
}
|| requires(const Map map, V x, Row<V> row) {
  { map.slopes(x, row) } -> std::same_as<Terms<V>>;
};

// N = G, the usual case.
struct NormalizedByMass {
  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return mass;
  }
};

// N = max(G, least): where nothing was weighed, the row is 0 rather than 0/0. `least` lies far below any sum that means
// something, so that it never bends a row that has weights.
template <class V>
constexpr V at_least(V mass, double least) {
  const V floor = lane::constant<V>(least);
  return lane::select(mass > floor, mass, floor);
}

}  // namespace cogwheel
