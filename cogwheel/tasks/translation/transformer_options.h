// The options of an encoder–decoder of attention layers, apart from the module.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/nn/options/rotary_options.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::translation {

struct TransformerOptions {
  std::int64_t vocabulary = 0;       // of both languages
  std::int64_t context = 100;        // the most tokens of a sentence, its end included
  std::int64_t layers = 3;           // of the encoder and of the decoder
  std::int64_t heads = 4;            // in a softmax layer; a differential layer has half as many, twice as wide
  std::int64_t key_value_heads = 0;  // grouped queries: a divisor of heads, counted alike; 0: as many
  std::int64_t width = 256;
  std::int64_t feed_forward = 0;          // hidden units; 0: 4·width, or for swiglu 8/3·width, up to a multiple of 32
  std::string activation = "gelu";        // or "swiglu", "gelu_tanh"
  std::string norm = "layer";             // or "rms"
  std::string position = "learned";       // or "rotary" (interleaved components), "rotary_halves", "none"
  bool bias = false;                      // in every linear layer and every LayerNorm
  bool tied_embeddings = true;            // one matrix for source, target and logits
  double dropout = 0;                     // in training: embeddings, attention weights, what is added to the stream
  std::string mechanism = "softmax";      // of all attention; or a hybrid, "cog*2+softmax", repeated down both stacks
  std::int64_t first_softmax_layers = 0;  // this many layers at the start and at the end of each stack stay softmax
  std::int64_t last_softmax_layers = 0;
  std::int64_t first_lambda_depth = 0;  // for differential attention: see AttentionLayerOptions

  std::int64_t feed_forward_width() const;
  bool operator==(const TransformerOptions&) const = default;
};

// Throws UsageError that names the first invalid option: "model.heads: expected …, got …".
void check(const TransformerOptions& options);

// What any topology says of itself (runs/configuration/model_options.h). Parameters are balanced by the feed-forward's
// width.
std::int64_t balanced_width(const TransformerOptions& options);
void set_balanced_width(TransformerOptions& options, std::int64_t width);
std::int64_t output_heads(const TransformerOptions& options);
nn::MechanismText mechanism_text(const TransformerOptions& options, std::string_view what);
std::vector<runs::ConfigField> config_fields(TransformerOptions& options);
const runs::ModelEntry& transformer_entry();
inline const runs::ModelEntry& model_entry(const TransformerOptions&) { return transformer_entry(); }

// How queries and keys of a sequence's own are rotated by their positions; nothing where they are not.
std::optional<nn::RotaryOptions> rotary_options(const TransformerOptions& options);

}  // namespace cogwheel::tasks::translation
