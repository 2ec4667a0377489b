// The definitions of modified_tile.h, read once per instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"
#include "cogwheel/attention/kernels/pairwise/cpu/modified_tile.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

constexpr int counters_per_panel = dropout::counters_per_panel;
static_assert(dropout::panel == panel_keys);

// Philox for the 16 counters of a panel at once, each step a loop that compiles to vectors.
HWY_INLINE void random_panel(std::uint64_t seed, std::int64_t head, std::int64_t query, std::int64_t panel,
                             std::uint32_t* words) {
  std::uint32_t *w0 = words, *w1 = words + 16, *w2 = words + 32, *w3 = words + 48;
  for (int c = 0; c < counters_per_panel; ++c) {
    w0[c] = static_cast<std::uint32_t>(panel * counters_per_panel + c);
    w1[c] = static_cast<std::uint32_t>(query);
    w2[c] = static_cast<std::uint32_t>(head);
    w3[c] = 0;
  }
  PhiloxKey key = philox_key(seed);
  for (int round = 0; round < philox_rounds; ++round, key = philox_next_key(key)) {
    const std::uint32_t key0 = key[0], key1 = key[1];
    for (int c = 0; c < counters_per_panel; ++c) {
      const std::uint64_t product0 = philox_multiplier0 * w0[c], product1 = philox_multiplier1 * w2[c];
      const std::uint32_t old1 = w1[c], old3 = w3[c];
      w0[c] = static_cast<std::uint32_t>(product1 >> 32) ^ old1 ^ key0;
      w1[c] = static_cast<std::uint32_t>(product1);
      w2[c] = static_cast<std::uint32_t>(product0 >> 32) ^ old3 ^ key1;
      w3[c] = static_cast<std::uint32_t>(product0);
    }
  }
}

template <class T>
void drop(const Modifiers<T>& modifiers, std::int64_t heads, const TilePlace& place, std::int64_t row, T* multipliers) {
  const std::uint64_t kept_below = dropout::kept_below(modifiers.dropout);
  const T kept = dropout::kept_factor<T>(modifiers.dropout);
  alignas(64) std::uint32_t words[panel_keys];
  for (std::int64_t x = place.first / panel_keys * panel_keys; x < place.last; x += panel_keys) {
    random_panel(modifiers.seed, modifiers.part.head(place.batch, place.output_head, heads),
                 modifiers.part.query(place.query + row), (place.first_key + x) / panel_keys, words);
    const std::int64_t from = std::max(x, place.first), to = std::min(x + panel_keys, place.last);
    for (std::int64_t y = from; y < to; ++y) multipliers[y] *= words[y - x] < kept_below ? kept : T(0);
  }
}

// to[x] += bias of the key; −∞ in `scores` where the bias is −∞, whatever the score was.
template <class T>
void add_bias(const ScoresView<const T>& bias, const TilePlace& place, std::int64_t row, std::int64_t end, T* to,
              T* scores) {
  const T* from = bias.row(place.batch, place.output_head, place.query + row) + place.first_key * bias.key_stride;
  const auto add = [&](std::int64_t key_stride) {
    for (std::int64_t x = place.first; x < end; ++x) {
      const T value = from[x * key_stride];
      to[x] += value;
      scores[x] = value == minus_infinity<T> ? value : scores[x];
    }
  };
  if (bias.key_stride == 1)
    add(1);
  else
    add(bias.key_stride);
}

// Scores s of columns [first, last) become c·tanh(s/c).
template <class T>
void cap(T softcap, std::int64_t first, std::int64_t last, T* scores, T* derivatives) {
  using V = Vector<T>;
  const V limit(softcap), inverse(T(1) / softcap), one(T(1));
  for (std::int64_t x = first; x < last; x += V::lanes) {
    const V tangent = V::tanh(V::load(scores + x) * inverse);
    (limit * tangent).store(scores + x);
    if (derivatives) (one - tangent * tangent).store(derivatives + x);
  }
}

}  // namespace

template <class T>
void differentiate_softcap(const TilePlace& place, const T* softcap_derivatives, T* score_gradients) {
  for (std::int64_t row = 0; row < place.rows; ++row)
    for (std::int64_t x = row * place.stride + place.first; x < row * place.stride + place.last; ++x)
      score_gradients[x] *= softcap_derivatives[x];
}

template <class T>
void modify_tile(const PairwiseProblem<T>& problem, bool has_energy, const TilePlace& place,
                 const ModifiedTile<T>& tile) {
  const Modifiers<T>& modifiers = problem.modifiers;
  const std::int64_t heads = problem.shape.query_heads / problem.shape.sub_heads;
  // Vectors may reach past the last key, biases do not.
  const std::int64_t end = std::min(place.last, problem.shape.keys - place.first_key);
  for (std::int64_t row = 0; row < place.rows; ++row) {
    T* scores = tile.scores + row * place.stride;
    T* energy_bias = tile.energy_bias + row * place.stride;
    T* multipliers = tile.multipliers + row * place.stride;
    for (std::int64_t x = place.first; x < place.last; ++x) {
      scores[x] *= problem.scale;
      energy_bias[x] = 0;
      multipliers[x] = 1;
    }
    if (modifiers.softcap > 0)
      cap(modifiers.softcap, place.first, place.last, scores,
          tile.softcap_derivatives ? tile.softcap_derivatives + row * place.stride : nullptr);
    if (modifiers.alibi) {
      T* to = has_energy ? energy_bias : scores;
      const double slope = modifiers.alibi[place.output_head];
      const std::int64_t* positions = problem.visibility.first_positions;
      const std::int64_t diagonal = positions ? positions[place.batch] : modifiers.alibi_diagonal;
      const std::int64_t origin = place.query + row + diagonal - place.first_key;
      for (std::int64_t x = place.first; x < end; ++x)
        to[x] -= static_cast<T>(slope * static_cast<double>(std::abs(origin - x)));
    }
    if (modifiers.bias.data) add_bias(modifiers.bias, place, row, end, scores, scores);
    if (modifiers.energy_bias.data) add_bias(modifiers.energy_bias, place, row, end, energy_bias, scores);
    if (modifiers.centers) {
      const std::int64_t at = (place.batch * heads + place.output_head) * problem.shape.queries + place.query + row;
      const T center = modifiers.centers[at];
      const T exponent = static_cast<T>(-0.5 / (modifiers.sigma * modifiers.sigma));
      for (std::int64_t x = place.first; x < place.last; x += Vector<T>::lanes) {
        T distances[Vector<T>::lanes];
        for (int lane = 0; lane < Vector<T>::lanes; ++lane)
          distances[lane] = static_cast<T>(place.first_key + x + lane) - center;
        const Vector<T> distance = Vector<T>::load(distances);
        Vector<T>::exp(Vector<T>(exponent) * distance * distance).store(multipliers + x);
      }
    }
    if (modifiers.dropout > 0) drop(modifiers, heads, place, row, multipliers);
  }
}

template <class T>
bool hides(const Modifiers<T>& modifiers, std::int64_t batch, std::int64_t output_head, std::int64_t query,
           std::int64_t key) {
  for (const auto* bias : {&modifiers.bias, &modifiers.energy_bias})
    if (bias->data && bias->row(batch, output_head, query)[key * bias->key_stride] == minus_infinity<T>) return true;
  return false;
}

template <class T>
std::int64_t visible_keys(const Modifiers<T>& modifiers, const Visibility& visibility, std::int64_t batch,
                          std::int64_t output_head, std::int64_t query) {
  const KeyRange range = visibility.of(query);
  if (!modifiers.bias.data && !modifiers.energy_bias.data) return range.size();
  std::int64_t count = 0;
  for (std::int64_t key = range.begin; key < range.end; ++key)
    count += hides(modifiers, batch, output_head, query, key) ? 0 : 1;
  return count;
}

template <class T>
double center_derivative(const Modifiers<T>& modifiers, T center, const T* contributions, std::int64_t first_key,
                         std::int64_t first, std::int64_t last) {
  double sum = 0;
  for (std::int64_t x = first; x < last; ++x)
    sum += static_cast<double>(contributions[x]) * (static_cast<double>(first_key + x) - static_cast<double>(center));
  return sum / (modifiers.sigma * modifiers.sigma);
}

#define COGWHEEL_MODIFIED_TILES(T)                                                                          \
  template void differentiate_softcap<T>(const TilePlace&, const T*, T*);                                   \
  template void modify_tile<T>(const PairwiseProblem<T>&, bool, const TilePlace&, const ModifiedTile<T>&);  \
  template bool hides<T>(const Modifiers<T>&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);      \
  template std::int64_t visible_keys<T>(const Modifiers<T>&, const Visibility&, std::int64_t, std::int64_t, \
                                        std::int64_t);                                                      \
  template double center_derivative<T>(const Modifiers<T>&, T, const T*, std::int64_t, std::int64_t, std::int64_t);
COGWHEEL_MODIFIED_TILES(float)
COGWHEEL_MODIFIED_TILES(double)
#undef COGWHEEL_MODIFIED_TILES

}  // namespace cogwheel::HWY_NAMESPACE
