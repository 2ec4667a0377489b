// What an attention layer is asked to be, and what follows from that: the widths of its projections.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/nn/options/norm_kind.h"

namespace cogwheel::nn {

struct AttentionLayerOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;            // of a plain row map
  std::int64_t head_dim = 0;         // of a query and a key; 0: width / heads
  std::int64_t key_value_heads = 0;  // a divisor of heads, counted alike; 0: as many as heads (else grouped queries)
  std::string mechanism = "softmax";
  std::int64_t layer = 0;  // counted from 0: λ_init of differential attention grows with depth
  // The depth of the first layer in λ_init = 0.8 − 0.6 exp(−0.3 · depth): 0 as in the paper and its code (0.20, 0.36,
  // 0.47, …), or 1 as in the table of the notes on the symmetric transformer (0.36, 0.47, 0.56, …).
  std::int64_t first_lambda_depth = 0;
  bool projection_bias = true;  // of queries, keys and values
  bool output_bias = true;
  bool causal = true;           // ignored by a layer that attends to a memory
  bool memory = false;          // whether keys and values come from the context's memory
  std::int64_t window = 0;      // the last keys that a causal query sees, itself included; 0: all of them
  std::string score = "dot";    // of a query and a key (ops/pairwise/scores.h), whose weights the layer learns
  bool alibi = false;           // causal scores fall with the distance: see alibi.h
  bool query_key_norm = false;  // an RMSNorm of each query and each key, before positions
  std::optional<double> norm_epsilon = {};               // of these; that of RMSNorm unless given
  double head_norm_epsilon = default_head_norm_epsilon;  // of the norm of heads of a difference of two maps

  double used_norm_epsilon() const { return norm_epsilon.value_or(default_epsilon(NormKind::rms)); }
  std::int64_t used_head_dim() const { return head_dim == 0 ? width / heads : head_dim; }
  std::int64_t used_key_value_heads() const { return key_value_heads == 0 ? heads : key_value_heads; }
};

// Throws UsageError that names the first invalid option.
void check(const AttentionLayerOptions& options);

// Whether it is one of two maps: half as many output heads, each of two sub-heads.
bool is_difference(const Mechanism& mechanism);

// Of differential attention, after options.layer; 0 for others.
double lambda_init_of(const AttentionLayerOptions& options);

// Columns of the projection of keys, and of that of values.
std::int64_t shared_width(const AttentionLayerOptions& options);
// Of all queries, and of what the output projection reads.
std::int64_t inner_width(const AttentionLayerOptions& options);
// Columns of the first projection: queries, keys where they are not tied, values; of a layer that attends to a memory
// queries alone. Its name says which.
std::vector<std::int64_t> projected_widths(const AttentionLayerOptions& options, const Mechanism& mechanism);
std::string projection_name(const AttentionLayerOptions& options, const Mechanism& mechanism);

}  // namespace cogwheel::nn
