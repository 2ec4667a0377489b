// What the configurations of BERT and ViT have in common in Hugging Face's transformers.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/tasks/encoders/encoder_layers.h"

namespace cogwheel::interchange {

inline constexpr const char* config_file = "config.json";
// The code that transformers runs where it is told to trust it (template/).
inline constexpr const char* modeling_file = "modeling_cogwheel.py";

// Layers, heads, widths and dropout; what is not said is as transformers has it. Keys that do not change what a model
// computes are skipped, the others must be as the models here have them.
void read_transformer(ForeignConfig& config, tasks::encoders::EncoderLayerOptions& options,
                      std::vector<std::string>& notes);

// Of a classifier: as many classes as names; without names, as num_labels says, or two.
std::int64_t read_class_count(ForeignConfig& config, const std::vector<std::string>& names);

// The other way. transformers counts classes by their names, so each has one, its number where the run has none.
void add_transformer(nlohmann::ordered_json& config, const tasks::encoders::EncoderLayerOptions& options);
void add_all_class_names(nlohmann::ordered_json& config, const std::filesystem::path& run, std::int64_t count);

}  // namespace cogwheel::interchange
