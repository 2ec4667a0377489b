#include "cogwheel/tasks/translation/sequence_to_sequence_options.h"

#include "cogwheel/attention/mechanisms/alignment.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/alignment.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::translation {

void check(const SequenceToSequenceOptions& options) {
  using Count = Range<std::int64_t>;
  constexpr std::int64_t max_units = 1 << 20;
  const auto expect = [](const char* name, auto value, const auto& range) {
    expect_within(std::string("model.") + name, value, range);
  };
  expect("vocabulary", options.vocabulary, Count{1, 1 << 24});
  expect("context", options.context, Count{2, runs::context_range.max});  // a word and the end
  expect("layers", options.layers, Count{1, 1000});
  expect("heads", options.heads, Count{1, max_units});
  expect("width", options.width, Count{2, max_units});
  expect("feed_forward", options.feed_forward, Count{0, max_units});
  expect("radius", options.radius, Range<double>{.min = 0, .max = 1e9, .min_excluded = true});
  expect("dropout", options.dropout, runs::dropout_range);
  if (options.width % 2 != 0)
    throw UsageError(expected_got("model.width", "an even number: half of it reads in each direction",
                                  std::to_string(options.width)));
  if (options.width % options.heads != 0)
    throw UsageError(expected_got("model.heads", "a divisor of model.width (" + std::to_string(options.width) + ")",
                                  std::to_string(options.heads)));
  if (options.cell != "gru" && options.cell != "lstm")
    throw UsageError(expected_got("model.cell", expected_names(options.cell, {"gru", "lstm"}), options.cell));
  find_alignment(options.mechanism, "model.mechanism");
  nn::check(nn::AlignmentLayerOptions{.alignment = options.mechanism,
                                      .decoder_width = options.width,
                                      .encoder_width = options.width,
                                      .heads = options.heads,
                                      .radius = options.radius});
}

std::int64_t balanced_width(const SequenceToSequenceOptions& options) { return options.feed_forward; }
void set_balanced_width(SequenceToSequenceOptions& options, std::int64_t width) { options.feed_forward = width; }
std::int64_t output_heads(const SequenceToSequenceOptions& options) { return options.heads; }

nn::MechanismText mechanism_text(const SequenceToSequenceOptions& options, std::string_view what) {
  const Alignment alignment = find_alignment(options.mechanism, what);
  nn::MechanismText text{.title = alignment.title(), .formula = {}, .definition = {}};
  if (alignment.map != nullptr) {
    text.formula = alignment.map->description.formula;
    text.definition = alignment.map->definition;
  }
  return text;
}

std::vector<runs::ConfigField> config_fields(SequenceToSequenceOptions& options) {
  return {
      {"model.mechanism", &options.mechanism},
      {"model.vocabulary", &options.vocabulary},
      {"model.context", &options.context},
      {"model.layers", &options.layers},
      {"model.heads", &options.heads},
      {"model.width", &options.width},
      {"model.feed_forward", &options.feed_forward},
      {"model.cell", &options.cell},
      {"model.radius", &options.radius},
      {"model.input_feeding", &options.input_feeding},
      {"model.tied_embeddings", &options.tied_embeddings},
      {"model.dropout", &options.dropout},
  };
}

}  // namespace cogwheel::tasks::translation
