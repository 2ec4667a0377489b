// The options of a model of any topology: one alternative for each, which has a header of its own. A new topology is
// one more alternative; its header has check, balanced_width, set_balanced_width, output_heads and mechanism_text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "cogwheel/models/encoder_options.h"
#include "cogwheel/models/handwriting_options.h"
#include "cogwheel/models/language_model_options.h"
#include "cogwheel/models/sequence_to_sequence_options.h"
#include "cogwheel/models/u_vit_options.h"
#include "cogwheel/models/vision_transformer_options.h"

namespace cogwheel {

using ModelOptions = std::variant<LanguageModelOptions, SequenceToSequenceOptions, HandwritingOptions, EncoderOptions,
                                  VisionTransformerOptions, UVitOptions>;

// What every topology has, to be read or set without knowing which it is.
template <bool writable>
struct BasicCommonOptions {
  template <class Value>
  using Member = std::conditional_t<writable, Value, const Value>&;

  Member<std::string> mechanism;
  Member<std::int64_t> vocabulary;
  Member<std::int64_t> context;  // the most tokens of a sequence
  Member<std::int64_t> layers, heads, width;
  Member<double> dropout;
};
using CommonOptions = BasicCommonOptions<true>;
using ConstCommonOptions = BasicCommonOptions<false>;

CommonOptions common(ModelOptions& options);
ConstCommonOptions common(const ModelOptions& options);

// Throws UsageError that names the first invalid option.
void check(const ModelOptions& options);

// Gives options that only data decide, such as the vocabulary, the least value that is valid.
void stand_in_for_data(ModelOptions& options);

// The width that balances parameters which a mechanism adds or saves (experiment/matching.h).
std::int64_t balanced_width(const ModelOptions& options);
void set_balanced_width(ModelOptions& options, std::int64_t width);

// Whether that width is one of feed-forward networks; else it is that of the whole model.
bool balances_feed_forward(const ModelOptions& options);

// Whether layers consist of heads, not of cells whose states one alignment or window connects.
bool layers_have_heads(const ModelOptions& options);

// The number of heads in attention maps.
std::int64_t output_heads(const ModelOptions& options);

// Throws UsageError that names `what` where the topology has no such mechanism.
MechanismText mechanism_text(const ModelOptions& options, std::string_view what);

}  // namespace cogwheel
