// What the layer of a recurrent mechanism has around its law: one description for each, of pieces that
// recurrent_layer.h puts together. A law without a row here, or a layer that is asked to be plain, has projections and
// gates alone.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel::nn {

// What a layer makes of y = W x + b to give a law one of its own tensors. A tensor that does not vary with the tokens
// is made of b alone.
enum class GateMap {
  linear,              // y
  sigmoid,             // σ(y)
  log_sigmoid,         // log σ(y)
  log_sigmoid_16,      // log σ(y) / 16, so that a gate forgets slowly at first: GLA
  above_bound,         // log(l + (1 − l) σ(y)), with l = layer / layers: HGRN2
  softplus,            // log(1 + exp(y))
  minus_exponential,   // −exp(y)
  step_times_constant  // −Δ exp(a), Δ = softplus(y), a learned for each head: Mamba-2
};

// A number among those of a tensor, for its initial value.
struct GatePlace {
  std::int64_t head, heads, channel, channels;
  std::int64_t row;  // where a head has a matrix; else as channel
  double depth;      // of the layer: 0 in the first, 1 in the last
};

struct GateRecipe {
  std::string_view parameter;  // of the law
  GateMap map = GateMap::linear;
  std::int64_t rank = 0;          // of W, at most an eighth of its inputs; 0: full
  bool tanh = false;              // between the two factors of W
  bool multiplies_value = false;  // by Δ
  double (*initial)(GatePlace) = [](GatePlace) -> double { return 0; };  // b
};

// What keys and queries become before the law meets them.
enum class LayerFeatures {
  as_they_are,
  silu_of_query,    // HGRN2
  unit,             // of length 1: delta rules
  elu_plus_one,     // and the output normalised, by the law's own options: linear attention
  positive,         // elu + 1, for a normaliser that needs features above 0
  random_of_units,  // max(0, P x / |x|), P [head_dim, head_dim] for each head, drawn normal and learned: RFA
};

struct RecurrentRecipe {
  std::string_view law;
  LayerFeatures features = LayerFeatures::as_they_are;
  bool scaled = true;          // queries by 1/√head_dim
  std::int64_t expansion = 1;  // the width of all values over the model's
  bool convolution = false;    // a causal convolution of 4 with SiLU, of query, key and value
  // Queries, keys and gates are projections of the convolved SiLU'd projection u of x, and values u itself: convolved,
  // or where the flag below is set, not.
  bool inner = false;
  bool values_before_convolution = false;
  bool shared_keys = false;  // one query and one key for all heads
  bool token_shift = false;  // each projection reads its own mixture of a token and the one before
  bool head_norm = false;    // an RMSNorm of each head's output
  bool output_gate = false;  // the output times SiLU of a projection of x
  bool skip = false;         // the values, each channel times a learned number, added to the output
  // With y for `phi`: exp(y − z), z the log-sum-exp of y over the tokens so far, and `log_decay` the change of −z, so
  // that slots hold means of what was written, not sums. ABC
  bool running_means = false;
  std::span<const GateRecipe> gates = {};
};

// The recipe of a paper's layer, or of a plain one: projections and the paper's gates with full W, and what keeps a law
// that divides or subtracts within bounds.
RecurrentRecipe recipe_of(const RecurrentLaw& law, bool plain);

// One for each tensor that the law requires: the recipe's own, or what its allowed values suggest.
std::vector<GateRecipe> gates_of(const RecurrentLaw& law, const RecurrentRecipe& recipe, bool plain);

}  // namespace cogwheel::nn
