// The options of a sequence-to-sequence model, apart from the module.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cogwheel/core/range.h"
#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::translation {

struct SequenceToSequenceOptions {
  static constexpr bool layers_have_heads = false;  // they are cells

  std::int64_t vocabulary = 0;         // of both languages
  std::int64_t context = 100;          // the most tokens of a sentence, its end included
  std::int64_t layers = 1;             // of the encoder and of the decoder
  std::int64_t heads = 1;              // of the alignment
  std::int64_t width = 512;            // of embeddings and states; the encoder has half of it in each direction
  std::int64_t feed_forward = 0;       // hidden units between a step's vector and its logits; 0: none
  std::string cell = "gru";            // or "lstm"
  std::string mechanism = "bahdanau";  // an alignment (attention/mechanisms/alignment.h)
  double radius = 10;                  // D of the local alignments, in tokens of the source
  bool input_feeding = false;          // Luong's: a step also reads the vector that the one before it predicted from
  bool tied_embeddings = true;         // one matrix for source, target and logits
  double dropout = 0;                  // in training: embeddings, between layers, and what predicts

  bool operator==(const SequenceToSequenceOptions&) const = default;
};

// Throws UsageError that names the first invalid option: "model.heads: expected …, got …".
void check(const SequenceToSequenceOptions& options);

// What any topology says of itself (runs/configuration/model_options.h). Parameters are balanced by the feed-forward's
// width.
std::int64_t balanced_width(const SequenceToSequenceOptions& options);
void set_balanced_width(SequenceToSequenceOptions& options, std::int64_t width);
std::int64_t output_heads(const SequenceToSequenceOptions& options);
nn::MechanismText mechanism_text(const SequenceToSequenceOptions& options, std::string_view what);

// What any topology says of itself (runs/configuration/model_options.h).
std::vector<runs::ConfigField> config_fields(SequenceToSequenceOptions& options);
const runs::ModelEntry& sequence_to_sequence_entry();
inline const runs::ModelEntry& model_entry(const SequenceToSequenceOptions&) { return sequence_to_sequence_entry(); }

}  // namespace cogwheel::tasks::translation
