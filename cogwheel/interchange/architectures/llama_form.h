// What Llama and differential Llama share: the keys of their configurations, and all tensors but those of attention.
#pragma once
#include <cstdint>
#include <string>

#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/interchange/language_architecture.h"
#include "cogwheel/interchange/tensor_table.h"

namespace cogwheel::interchange {

// Of a configuration that lacks them. 0 key heads: as many as heads; 0 head_dim: width / heads.
struct LlamaDefaults {
  std::int64_t width, hidden, layers, heads, key_value_heads, context, head_dim;
  double norm_epsilon = 1e-6;
};

// A model that is normed by RMSNorm, before SwiGLU.
bool is_llama_form(const runs::ModelOptions& model);

// Form, sizes, ε, rotary positions and the head. What is not read here is as LanguageModelOptions have it.
LanguageModelOptions read_llama_form(ForeignConfig& config, const LlamaDefaults& defaults);
// The other way.
nlohmann::ordered_json llama_form_config(const LanguageModelOptions& options);
// What of it a model must have.
void expect_llama_form(HeldOptions& held, const LanguageModelOptions& options);

std::int64_t key_heads(const LanguageModelOptions& options);
// "layers.3.", "model.layers.3."
std::string our_layer(std::int64_t layer);
std::string llama_layer(std::int64_t layer);
// Rows of so many heads of queries or keys: rotary components are halves there, and here those of the position.
Order rotary_order(const LanguageModelOptions& options, std::int64_t heads);
// Embedding, head, norms and feed-forward.
void add_llama_form(TensorTable& table, const LanguageModelOptions& options);

}  // namespace cogwheel::interchange
