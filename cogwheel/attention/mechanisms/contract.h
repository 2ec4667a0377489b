// The pairwise contract: what a row map must define.
//
// With s_j the visible scores of one query, c its row, θ the map's learnable scalars and w_j a multiplier that the
// engine adds (dropout, a Gaussian window):
//   a_j = w_j f(s_j; θ, c) / N(G; θ, c),   G = Σ_j g(s_j; θ, c),   o = Σ_j a_j v_j
// An engine keeps G and o per row and needs nothing else in either direction:
//   ∂L/∂s_j = ( w_j f′(s_j) (do·v_j) − (do·o) N′(G) g′(s_j) ) / N(G)
//   ∂L/∂θ   = ( Σ_j [ w_j f_θ(s_j) (do·v_j) − (do·o) N′(G) g_θ(s_j) ] − (do·o) N_θ(G) ) / N(G), summed over rows
//
// The symbols, what the field calls them, and the short names that code uses everywhere:
//   symbol   name                                                           in code
//   s_j      score of a visible key, scale · q·k_j unless said otherwise    s, score
//   f(s_j)   numerator of the key's weight                                  weight, of Terms
//   g(s_j)   the key's term of the denominator                              mass, of Terms
//   G        the row's total of g: the denominator's sum                    mass
//   N(G)     denominator; for most maps G itself                            normalizer
//   a_j      attention weight                                               weight
//   e(s_j)   exponent: f and g grow like exp(e)                             energy
//   m        row maximum of the exponents, subtracted before exp            shift
//   n        number of visible keys of the row                              visible
//   θ        learnable scalars, one set per head                            theta, parameters
// Maps with an exponent compute f, g and N times exp(−m), which cancels in a_j.
//
// A map defines f, g and N; their derivatives follow from the same code (differentiated.h). Every function of a map is
// a template over the lane type V, so that each instruction set compiles its own copy and dual numbers pass through it.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

// What one score contributes to its row: f and g.
template <class V>
struct Terms {
  V weight, mass;
};

// What a map may read of a row besides a score. Both are constants to derivatives.
template <class V>
struct Row {
  V visible;  // number of keys that the query sees
  V shift;    // m, the row maximum of the exponents so far; 0 for maps without an energy
};

// A map with learnable scalars θ names them. These are the names of the arguments that users pass.
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

// f and g at a score, N at a row total.
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

// An energy map has an exponent: its f and g grow like exp(energy). The engine subtracts the running maximum of the
// exponents, the shift, and rescales f, g and N together by exp(−shift), so that the largest exponent is 0. Such a map
// is finite at any finite score.
template <class Map, class V>
concept EnergyMap = RowMap<Map, V> &&(
    requires(const Map map, V x, Theta<Map, V> theta) {
      { map.energy(x, theta) } -> std::same_as<V>;
    } ||
    requires(const Map map, V x) {
      { map.energy(x) } -> std::same_as<V>;
    });

// An energy map may say that its weights are exponentials: |f| is exp(e − m), or 0. Then log|f|, of which entropies are
// sums, is known without a logarithm.
//   static constexpr bool weights_are_exponentials = true;
template <class Map>
inline constexpr bool weights_are_exponentials = false;
template <class Map>
requires requires { Map::weights_are_exponentials; }
inline constexpr bool weights_are_exponentials<Map> = Map::weights_are_exponentials;

// Where the running maximum starts, for energy maps that add a term to G in N (a sink).
template <class Map, class V>
concept SinkMap = EnergyMap<Map, V> && requires(const Map map, Theta<Map, V> theta) {
  { map.initial_energy(theta) } -> std::same_as<V>;
};

// A map may define f′ and g′ itself, where those of dual numbers will not do: at a kink, for accuracy or for speed. Its
// second derivatives are then the derivatives of these.
template <class Map, class V>
concept MapWithDerivatives = requires(const Map map, V x, Row<V> row, Theta<Map, V> theta) {
  { map.derivatives(x, row, theta) } -> std::same_as<Terms<V>>;
}
|| requires(const Map map, V x, Row<V> row) {
  { map.derivatives(x, row) } -> std::same_as<Terms<V>>;
};

// N = G, the usual case.
struct NormalizedByMass {
  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return mass;
  }
};

// N = max(G, minimum): a row whose total is 0 is 0 rather than 0/0. `minimum` lies far below any total that occurs
// otherwise, so that it changes no other row.
template <class V>
constexpr V at_least(V mass, double minimum) {
  const V floor = lane::constant<V>(minimum);
  return lane::select(mass > floor, mass, floor);
}

}  // namespace cogwheel
