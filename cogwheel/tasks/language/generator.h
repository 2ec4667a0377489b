// Text from a language model, for every front end: sequences of different lengths that enter and leave between steps.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/nn/weights/joined_products.h"
#include "cogwheel/runs/sampler.h"
#include "cogwheel/tasks/language/token_choice.h"

namespace cogwheel::tasks::language {

class LanguageModel;
}  // namespace cogwheel::tasks::language

namespace cogwheel::nn {
class ModelState;
}  // namespace cogwheel::nn

namespace cogwheel::tasks::language {

// What a generator makes at each step of each sequence that goes on.
struct GeneratedToken {
  std::uint64_t sequence;  // its number
  ChosenToken chosen;
};

// A sequence's tokens follow from its prompt, its options and its number alone, to the bit: each has a state of its own
// and a pass of its own, which meets others only where weights are read (nn/weights/joined_products.h). So one that
// enters or leaves copies nothing of the others.
//
// Prompts are read in blocks, with the logits of the last token alone. The model sees the last `context` tokens, or all
// where no layer keeps keys and no table positions (LanguageModel::longest_text). Beyond the context every token
// changes its position at each step, so that a step costs a pass over the whole window, as it always does for a model
// that cannot decode.
class Generator {
 public:
  explicit Generator(LanguageModel& model);
  ~Generator();

  // A sequence that goes on from the prompt; without one, from token 0. Throws UsageError for invalid options, tokens
  // that the model does not have, and a number that is here already.
  void enter(std::uint64_t number, std::vector<Token> prompt, const runs::SamplingOptions& options);
  // More tokens to read, after which the sequence goes on.
  void append(std::uint64_t number, std::span<const Token> tokens);
  void leave(std::uint64_t number);
  bool empty() const { return sequences_.empty(); }
  std::size_t size() const { return sequences_.size(); }

  // The next token of each sequence, in the order of their numbers. Throws Error where the model gives NaN.
  std::vector<GeneratedToken> step();

 private:
  class Sequence;

  LanguageModel& model_;
  std::map<std::uint64_t, std::unique_ptr<Sequence>> sequences_;
  nn::JoinedProducts products_;
};

// The logits of the last of these tokens, [1, V], which follow those of the state: read in blocks, each within the room
// of the state, whose products are made at full speed and whose values between layers take little memory.
at::Tensor read_in_blocks(LanguageModel& model, nn::ModelState& state, std::span<const Token> tokens);

// How many more tokens the state can take, at least one: of a full one, a quarter of what may be forgotten is, the
// oldest after the first `sink` tokens.
std::int64_t make_room(LanguageModel& model, nn::ModelState& state, std::int64_t sink);

// The generated tokens of one sequence, without the prompt. `on_token` is called with each token as it is drawn and
// ends the sampling by returning false.
std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const runs::SamplingOptions& options,
                          const std::function<bool(Token)>& on_token = {});

}  // namespace cogwheel::tasks::language
