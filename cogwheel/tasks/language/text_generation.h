// Texts that go on from prompts, with the tokenizer of a run: what `cogwheel sample` prints and `model.generate` gives.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/runs/sampler.h"
#include "cogwheel/tasks/language/token_choice.h"

namespace cogwheel::text {
class Tokenizer;
}  // namespace cogwheel::text

namespace cogwheel::tasks::language {

class LanguageModel;

enum class EndOfText { length, end_token, stop, interrupted };
std::string_view name_of(EndOfText end);

struct GeneratedText {
  std::uint64_t number = 0;  // of the sequence: that of the prompt times `count`, and that of the sample
  std::string text = {};     // whole characters, up to a stop string; none without a tokenizer
  // All that were drawn, those of the stop string too, without the end token. Of beams, log-probabilities as well.
  std::vector<ChosenToken> tokens = {};
  EndOfText end = EndOfText::length;
};

struct TextGenerationOptions {
  runs::SamplingOptions sampling;
  std::int64_t count = 1;    // samples of each prompt
  std::int64_t batch = 8;    // sequences side by side, which changes no text
  std::int64_t beam = 1;     // above 1: the most probable text that a search with so many hypotheses finds
  std::optional<Token> end;  // the token that ends a text
};

// In the order of their numbers. `tokenizer` may be null, without stop strings; its tokens alone are drawn. `on_text`
// is called for each token, with what can be shown of a sequence's text now for the first time, beside all that it has
// by then, and where it ended; returning false interrupts all, and what it throws ends the call. Throws UsageError
// without prompts, for invalid options, and for a beam whose texts could outgrow the context.
std::vector<GeneratedText> generate_texts(
    LanguageModel& model, const text::Tokenizer* tokenizer, std::span<const std::vector<Token>> prompts,
    const TextGenerationOptions& options,
    const std::function<bool(const GeneratedText& made, std::string_view text, bool ended)>& on_text = {});

// {"number", "text", "end", "tokens", and where they were asked for "log_probabilities", "likeliest": [[[token, log-
// probability], …] of each place]}
nlohmann::ordered_json to_json(const GeneratedText& generated);

}  // namespace cogwheel::tasks::language
