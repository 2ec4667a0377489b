#include "cogwheel/tasks/encoders/encoder_stack.h"

#include <torch/nn/modules/container/modulelist.h>

namespace cogwheel::tasks::encoders {

nn::LayerMechanisms layer_mechanisms(const EncoderLayerOptions& options) {
  return {options.mechanism, options.layers, options.first_softmax_layers, options.last_softmax_layers};
}

nn::TransformerBlockOptions block_options(const EncoderLayerOptions& options, const EncoderBlockForm& form,
                                          std::int64_t layer) {
  const nn::LayerMechanisms mechanisms = layer_mechanisms(options);
  return {.attention = {.width = options.width,
                        .heads = options.heads,
                        .mechanism = mechanisms.at(layer),
                        .layer = layer,
                        .first_lambda_depth = options.first_lambda_depth,
                        .projection_bias = form.projection_bias,
                        .output_bias = true,
                        .causal = false},
          .feed_forward = {.width = options.width, .hidden = options.feed_forward_width()},
          .norm_place = form.norm_place,
          .norm_epsilon = form.norm_epsilon};
}

std::vector<nn::TransformerBlock> register_blocks(torch::nn::Module& parent, const EncoderLayerOptions& options,
                                                  const EncoderBlockForm& form) {
  const auto layers = parent.register_module("layers", torch::nn::ModuleList());
  std::vector<nn::TransformerBlock> blocks;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    blocks.emplace_back(block_options(options, form, layer));
    layers->push_back(blocks.back());
  }
  return blocks;
}

void initialize_blocks(std::vector<nn::TransformerBlock>& blocks, const nn::WeightInitializer& initializer) {
  for (std::size_t layer = 0; layer < blocks.size(); ++layer)
    blocks[layer]->initialize(initializer, "layers." + std::to_string(layer), encoder_deviation, encoder_deviation);
}

}  // namespace cogwheel::tasks::encoders
