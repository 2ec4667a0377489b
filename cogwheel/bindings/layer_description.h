// The layers of nn as JSON, for Python's modules of the same names (python/cogwheel/nn): their options, and what
// follows from these and the catalogue, so that it is said once. Python composes its modules of this.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/rotary.h"

namespace cogwheel::bindings {

// The options by name, and
//   head_dim, sub_heads, ties_keys
//   operator      the name by which an operator takes the mechanism
//   is_dense      whether it is a function of the whole matrix of scores
//   parameters    of the mechanism, each a name, the sizes of its tensor and its initial values, which fill its last
//                 dimension
//   lambda_init   of a difference of two maps
//   alibi_slopes  of the heads of the output, where there is ALiBi
// Throws UsageError for options that the layer refuses.
nlohmann::ordered_json description_of(const nn::AttentionLayerOptions& options);

// The options by name, what the recipe says (nn/mixers/recurrent_recipe.h), `reads_query` and `reads_key` of the law,
// `number`, the name of a number that the law asks for, or null, and `gates`, each with its map, the sizes of its
// tensor and how it is made.
nlohmann::ordered_json description_of(const nn::RecurrentLayerOptions& options);

// `attention` or `recurrent`, `memory_attention` or null, `feed_forward`, and `norm`.
nlohmann::ordered_json description_of(const nn::TransformerBlockOptions& options);

// head_dim, positions, halves, base, and scaling, factor, low_frequency, high_frequency, original_context.
nlohmann::ordered_json description_of(const nn::RotaryOptions& options);

// The inverse: options that are left out have their defaults, or in a block those of its width. Throws UsageError for a
// key that is not known, and for a value of another type.
nn::AttentionLayerOptions attention_options_of(const nlohmann::ordered_json& json);
nn::RecurrentLayerOptions recurrent_options_of(const nlohmann::ordered_json& json);
nn::TransformerBlockOptions block_options_of(const nlohmann::ordered_json& json);
nn::RotaryOptions rotary_options_of(const nlohmann::ordered_json& json);

}  // namespace cogwheel::bindings
