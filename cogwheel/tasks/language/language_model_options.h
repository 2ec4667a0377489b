// The options of a language model, apart from the module: enough to describe, count or record a model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/law_options.h"
#include "cogwheel/core/range.h"
#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/nn/options/norm_kind.h"
#include "cogwheel/nn/options/rotary_options.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::language {

class LanguageModel;

struct LanguageModelOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;  // tokens in a window, and rows of the position table
  std::int64_t layers = 4;
  std::int64_t heads = 4;            // in a softmax layer; a differential layer has half as many, twice as wide
  std::int64_t key_value_heads = 0;  // grouped queries: a divisor of heads, counted alike; 0: as many
  std::int64_t head_dim = 0;         // of a query and a key; 0: width / heads
  std::int64_t width = 128;
  std::int64_t feed_forward = 0;     // hidden units; 0: 4·width, or for swiglu 8/3·width, up to a multiple of 32
  std::string activation = "gelu";   // or "swiglu", "gelu_tanh"
  std::string norm = "layer";        // or "rms"
  double norm_epsilon = 0;           // of every norm of tokens, queries and keys; 0: that of the kind
  double head_norm_epsilon = 0;      // of norms of heads' outputs; 0: that of the mechanism's layer
  bool query_key_norm = false;       // an RMSNorm of each query and key
  std::int64_t window = 0;           // the last tokens that one sees, itself included; 0: all
  std::string position = "learned";  // or "rotary" (interleaved components), "rotary_halves", "alibi", "none"
  double rotary_base = 10000;        // θ of rotary positions
  nn::RotaryScaling rotary_scaling = {};
  bool bias = false;                  // in every linear layer, every LayerNorm and the untied head
  bool projection_bias = false;       // of queries, keys and values of attention, also without `bias`
  bool tied_head = true;              // the head reads the token embedding
  bool head_bias = true;              // of a head that is not tied, with `bias`
  double dropout = 0;                 // in training: embedding, attention weights, what is added to the residual stream
  std::string mechanism = "softmax";  // or a hybrid, "gla*3+softmax", repeated down the layers
  std::string recurrent_layer = "paper";  // of a mechanism with a state; or "plain": projections and gates alone
  LawSwitches law_options = {};           // which options of their laws are on
  std::int64_t first_softmax_layers = 0;  // this many layers at the start and at the end stay softmax
  std::int64_t last_softmax_layers = 0;
  std::int64_t first_lambda_depth = 0;  // for differential attention: see AttentionLayerOptions

  std::int64_t feed_forward_width() const;
  std::int64_t used_head_dim() const { return head_dim == 0 ? width / heads : head_dim; }
  bool operator==(const LanguageModelOptions&) const = default;
};

// The values of `position` and `recurrent_layer`.
const std::vector<std::string>& position_names();
const std::vector<std::string>& recurrent_layer_names();

// Throws UsageError that names the first invalid option: "model.heads: expected …, got …".
void check(const LanguageModelOptions& options);

// What any topology says of itself (runs/configuration/model_options.h). Parameters are balanced by the feed-forward's
// width; of a mixture, heads in attention maps are its output heads, and of a hybrid those of the layer with most.
std::int64_t balanced_width(const LanguageModelOptions& options);
void set_balanced_width(LanguageModelOptions& options, std::int64_t width);
std::int64_t output_heads(const LanguageModelOptions& options);
nn::MechanismText mechanism_text(const LanguageModelOptions& options, std::string_view what);

inline nn::NormKind norm_kind(const LanguageModelOptions& options) {
  return options.norm == "rms" ? nn::NormKind::rms : nn::NormKind::layer;
}

// How queries and keys are rotated by their positions; nothing where they are not.
std::optional<nn::RotaryOptions> rotary_options(const LanguageModelOptions& options);

// The mechanism of a layer, counted from 0.
std::string layer_mechanism(const LanguageModelOptions& options, std::int64_t layer);

// The options that a model was created with.
const LanguageModelOptions& options_of(const LanguageModel& model);

// What any topology says of itself (runs/configuration/model_options.h).
std::vector<runs::ConfigField> config_fields(LanguageModelOptions& options);
const runs::ModelEntry& language_model_entry();
inline const runs::ModelEntry& model_entry(const LanguageModelOptions&) { return language_model_entry(); }

}  // namespace cogwheel::tasks::language
