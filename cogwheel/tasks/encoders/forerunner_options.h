// The options of the forerunners of self-attention that classify sentences, apart from the modules.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/alignment.h"
#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::encoders {

// What they have in common. `vocabulary` counts pieces of words; `context` is the most tokens of a row.
struct ForerunnerOptions {
  static constexpr bool layers_have_heads = false;  // one alignment is all attention

  std::int64_t vocabulary = 0;
  std::int64_t context = 128;
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t width = 256;           // of embeddings and states
  std::int64_t feed_forward = 0;      // hidden units of what reads the classes; 0: 4·width
  std::string mechanism = "softmax";  // a row map
  std::int64_t classes = 0;
  double dropout = 0;  // in training: embeddings, and what the classes are read from

  std::int64_t feed_forward_width() const { return feed_forward == 0 ? 4 * width : feed_forward; }
  bool operator==(const ForerunnerOptions&) const = default;
};

struct StructuredOptions : ForerunnerOptions {
  std::string cell = "lstm";  // or "gru"
  std::int64_t queries = 4;   // that are learned: rows of A
  double penalty = 1;         // times ‖A Aᵀ − I‖², added to the loss of training
  bool operator==(const StructuredOptions&) const = default;
};

struct LstmnOptions : ForerunnerOptions {
  bool operator==(const LstmnOptions&) const = default;
};

struct DecomposableOptions : ForerunnerOptions {
  bool operator==(const DecomposableOptions&) const = default;
};

// The name of the alignment (attention/mechanisms/alignment.h) of a score over the row map `mechanism`.
std::string alignment_over(AlignmentScore score, std::string_view mechanism);

// Throws UsageError that names the first invalid option: "model.queries: expected …, got …".
void check(const StructuredOptions& options);
void check(const LstmnOptions& options);
void check(const DecomposableOptions& options);

// What any topology says of itself (runs/configuration/model_options.h). Parameters are balanced by the hidden units of
// what reads the classes.
std::int64_t balanced_width(const ForerunnerOptions& options);
void set_balanced_width(ForerunnerOptions& options, std::int64_t width);
inline std::int64_t output_heads(const ForerunnerOptions&) { return 1; }
nn::MechanismText mechanism_text(const ForerunnerOptions& options, std::string_view what);
void stand_in_for_data(ForerunnerOptions& options);
std::vector<runs::ConfigField> config_fields(StructuredOptions& options);
std::vector<runs::ConfigField> config_fields(LstmnOptions& options);
std::vector<runs::ConfigField> config_fields(DecomposableOptions& options);
const runs::ModelEntry& structured_entry();
const runs::ModelEntry& lstmn_entry();
const runs::ModelEntry& decomposable_entry();
inline const runs::ModelEntry& model_entry(const StructuredOptions&) { return structured_entry(); }
inline const runs::ModelEntry& model_entry(const LstmnOptions&) { return lstmn_entry(); }
inline const runs::ModelEntry& model_entry(const DecomposableOptions&) { return decomposable_entry(); }

}  // namespace cogwheel::tasks::encoders
