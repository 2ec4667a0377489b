// The blocks of a model in which every token sees every other, from its options.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/options/layer_mechanisms.h"
#include "cogwheel/tasks/encoders/encoder_layers.h"

namespace cogwheel::tasks::encoders {

// What a model decides for its blocks, whatever its options.
struct EncoderBlockForm {
  nn::NormPlace norm_place = nn::NormPlace::before;
  double norm_epsilon = 1e-5;
  bool projection_bias = true;  // of queries, keys and values
};

nn::LayerMechanisms layer_mechanisms(const EncoderLayerOptions& options);

// The block `layer`, counted from 0. `options` must be checked.
nn::TransformerBlockOptions block_options(const EncoderLayerOptions& options, const EncoderBlockForm& form,
                                          std::int64_t layer);
// All of them, registered with `parent` as layers.0, layers.1, …
std::vector<nn::TransformerBlock> register_blocks(torch::nn::Module& parent, const EncoderLayerOptions& options,
                                                  const EncoderBlockForm& form);
// Weights N(0, 0.02²), biases 0, gains 1.
void initialize_blocks(std::vector<nn::TransformerBlock>& blocks, const nn::WeightInitializer& initializer);
inline constexpr double encoder_deviation = 0.02;  // of all weights of these models, unless they say otherwise

}  // namespace cogwheel::tasks::encoders
