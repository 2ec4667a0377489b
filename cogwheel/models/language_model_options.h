// What a language model is made with, apart from the module: whoever describes, sizes or records a model needs no more.
#pragma once
#include <cstdint>
#include <string>

#include "cogwheel/core/range.h"

namespace cogwheel {

class LanguageModel;

struct LanguageModelOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;  // tokens in a window, and rows of the position table
  std::int64_t layers = 4;
  std::int64_t heads = 4;            // of a softmax layer; a differential layer has half as many, twice as wide
  std::int64_t key_value_heads = 0;  // grouped queries: a divisor of heads, counted as they are; 0: as many
  std::int64_t width = 128;
  std::int64_t feed_forward = 0;     // hidden units; 0: 4·width, or for swiglu 8/3·width, up to a multiple of 32
  std::string activation = "gelu";   // or "swiglu"
  std::string norm = "layer";        // or "rms"
  std::string position = "learned";  // or "rotary" (interleaved pairs), "rotary_halves"
  double rotary_base = 10000;        // θ of rotary positions
  bool bias = false;                 // in every linear layer, every LayerNorm and the untied head
  bool tied_head = true;             // the head reads the token embedding
  double dropout = 0;                // in training: embedding, attention weights, what is added to the residual stream
  std::string mechanism = "softmax";
  std::int64_t first_softmax_layers = 0;  // these many layers at either end stay softmax
  std::int64_t last_softmax_layers = 0;
  std::int64_t first_lambda_depth = 0;  // of differential attention: see AttentionLayerOptions

  std::int64_t feed_forward_width() const;
};

// Upper ends far beyond any memory, so that no loop or product over them runs off.
inline constexpr Range<std::int64_t> context_range{1, 1 << 20};
inline constexpr Range<double> dropout_range{.least = 0, .most = 1, .most_excluded = true};

// Throws UsageError naming the first option that cannot be: "model.heads: expected …, got …".
void check(const LanguageModelOptions& options);

// The mechanism of a layer, counted from 0.
std::string layer_mechanism(const LanguageModelOptions& options, std::int64_t layer);

// Every learnable number, a tied head counted once. Allocates nothing.
std::int64_t parameter_count(const LanguageModelOptions& options);

// Those that a model was made with.
const LanguageModelOptions& options_of(const LanguageModel& model);

}  // namespace cogwheel
