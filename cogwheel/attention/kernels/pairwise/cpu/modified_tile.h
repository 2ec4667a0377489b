// A soft cap, biases, distances, Gaussian windows and dropout, applied to a tile before and after the row map sees it.
//
// Tiles without any of these skip this code. Modifiers are written into three arrays of the tile's shape, so that the
// map's loops read numbers, whatever the modifier.
// Compiled once per instruction set and type in modified_tile.cpp.in.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel::HWY_NAMESPACE {

// `rows` queries from `query` against the keys [first_key + first, first_key + last); row r begins at r·stride.
struct TilePlace {
  std::int64_t batch, output_head, query, rows;
  std::int64_t first_key, first, last;  // first_key is a multiple of panel_keys
  std::int64_t stride;
};

template <class T>
struct ModifiedTile {
  T* scores;                         // products q·k before, scores after; −∞ where a bias hides the key
  T* energy_bias;                    // added to the exponent
  T* multipliers;                    // of the weights, after the map
  T* softcap_derivatives = nullptr;  // written where given and scores are capped: 1 − tanh²(s/c)
};

// score_gradients[x] *= softcap_derivatives[x] over the tile.
template <class T>
void differentiate_softcap(const TilePlace& place, const T* softcap_derivatives, T* score_gradients);

template <class T>
void modify_tile(const PairwiseProblem<T>& problem, bool has_energy, const TilePlace& place,
                 const ModifiedTile<T>& tile);

// Whether any bias hides the key.
template <class T>
bool hides(const Modifiers<T>& modifiers, std::int64_t batch, std::int64_t output_head, std::int64_t query,
           std::int64_t key);

// Number of keys that the query sees.
template <class T>
std::int64_t visible_keys(const Modifiers<T>& modifiers, const Visibility& visibility, std::int64_t batch,
                          std::int64_t output_head, std::int64_t query);

// Σ_j c_j ∂ log w_j/∂center over columns [first, last) of one row, c_j the part of the loss that goes through the
// weight.
template <class T>
double center_derivative(const Modifiers<T>& modifiers, T center, const T* contributions, std::int64_t first_key,
                         std::int64_t first, std::int64_t last);

}  // namespace cogwheel::HWY_NAMESPACE
