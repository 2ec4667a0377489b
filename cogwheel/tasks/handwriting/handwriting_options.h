// The options of a handwriting model, apart from the module.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cogwheel/core/range.h"
#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::handwriting {

struct HandwritingOptions {
  static constexpr bool layers_have_heads = false;  // they are cells

  std::int64_t vocabulary = 0;              // characters of the alphabet; 0 where strokes have no text
  std::int64_t context = 1200;              // the most points of a sequence
  std::int64_t layers = 3;                  // LSTM layers
  std::int64_t heads = 1;                   // there is one window
  std::int64_t width = 400;                 // units of a layer
  std::int64_t mixtures = 20;               // Gaussians of the next offset
  std::int64_t curves = 10;                 // bell curves of the window
  std::string mechanism = "graves_window";  // or "none": strokes without their text
  double dropout = 0;                       // in training, between layers

  bool operator==(const HandwritingOptions&) const = default;
};

// Throws UsageError that names the first invalid option.
void check(const HandwritingOptions& options);

// What any topology says of itself (runs/configuration/model_options.h). Parameters are balanced by the units of the
// layers.
std::int64_t balanced_width(const HandwritingOptions& options);
void set_balanced_width(HandwritingOptions& options, std::int64_t width);
std::int64_t output_heads(const HandwritingOptions& options);
nn::MechanismText mechanism_text(const HandwritingOptions& options, std::string_view what);

// What any topology says of itself (runs/configuration/model_options.h).
std::vector<runs::ConfigField> config_fields(HandwritingOptions& options);
const runs::ModelEntry& handwriting_entry();
inline const runs::ModelEntry& model_entry(const HandwritingOptions&) { return handwriting_entry(); }

}  // namespace cogwheel::tasks::handwriting
