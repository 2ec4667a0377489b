#include "cogwheel/tasks/language/generator.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {
namespace {

// Of a block.
constexpr std::size_t tokens_at_once = 512;

void expect_tokens(std::span<const Token> tokens, std::int64_t vocabulary) {
  for (const Token token : tokens)
    if (token < 0 || token >= vocabulary)
      throw UsageError(expected_got("prompt", "tokens 0 to " + std::to_string(vocabulary - 1), std::to_string(token)));
}

at::Tensor as_tensor(std::span<const Token> tokens) {
  return torch::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
}

}  // namespace

class Generator::Sequence {
 public:
  Sequence(LanguageModel& model, std::vector<Token> prompt, const runs::SamplingOptions& options, std::uint64_t number)
      : model_(model), text_(std::move(prompt)), sink_(options.sink), choice_(options, number) {
    if (text_.empty()) text_.push_back(0);
    if (forgets()) {
      model->expect_endless();
      const std::int64_t context = model->options().context;
      if (options.sink >= context)
        throw UsageError(
            expected_got("sink", "fewer than the context of " + std::to_string(context), std::to_string(options.sink)));
    }
    model->expect_kept_keys(options.cache);
    if (model->can_decode()) state_ = model->make_state(1, options.cache);
  }

  void append(std::span<const Token> tokens) { text_.insert(text_.end(), tokens.begin(), tokens.end()); }

  // The logits of the last token, [1, V].
  at::Tensor read() {
    const std::span<const Token> text = text_;
    const auto context = static_cast<std::size_t>(model_->options().context);
    if (!state_ || (!forgets() && std::ssize(text) > model_->longest_text())) {
      state_.reset();
      return model_->last_logits(as_tensor(text.last(std::min(text.size(), context))));
    }
    at::Tensor logits;
    while (read_ < text.size()) {
      const auto count = static_cast<std::size_t>(
          std::min(std::ssize(text) - static_cast<std::int64_t>(read_), make_room(model_, *state_, sink_)));
      logits = read_in_blocks(model_, *state_, text.subspan(read_, count));
      read_ += count;
    }
    return logits;
  }

  ChosenToken choose(const at::Tensor& given) {
    const at::Tensor logits = given.to(at::kCPU, at::kFloat).contiguous();
    const ChosenToken chosen =
        choice_({logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, text_);
    text_.push_back(chosen.token);
    return chosen;
  }

 private:
  bool forgets() const { return sink_ >= 0; }

  LanguageModel& model_;
  std::vector<Token> text_;
  std::size_t read_ = 0;  // the tokens of the text that the state has had
  std::int64_t sink_;
  TokenChoice choice_;
  std::optional<nn::ModelState> state_;  // none beyond the context, or of a model that cannot decode
};

at::Tensor read_in_blocks(LanguageModel& model, nn::ModelState& state, std::span<const Token> tokens) {
  at::Tensor logits;
  for (std::size_t begin = 0; begin < tokens.size(); begin += tokens_at_once)
    logits = model->last_logits(as_tensor(tokens.subspan(begin, std::min(tokens_at_once, tokens.size() - begin))),
                                {.state = &state});
  return logits;
}

std::int64_t make_room(LanguageModel& model, nn::ModelState& state, std::int64_t sink) {
  const std::int64_t longest = model->longest_text();
  // One token at a time would turn every key at each step.
  if (state.longest() == longest) state.forget(sink, std::max<std::int64_t>(1, (longest - sink) / 4));
  return longest - state.longest();
}

Generator::Generator(LanguageModel& model) : model_(model) {}
Generator::~Generator() = default;

void Generator::enter(std::uint64_t number, std::vector<Token> prompt, const runs::SamplingOptions& options) {
  runs::check(options);
  expect_tokens(prompt, model_->options().vocabulary);
  if (sequences_.contains(number))
    throw UsageError(expected_got("generator: sequence", "a number that is not here yet", std::to_string(number)));
  sequences_.emplace(number, std::make_unique<Sequence>(model_, std::move(prompt), options, number));
}

void Generator::append(std::uint64_t number, std::span<const Token> tokens) {
  expect_tokens(tokens, model_->options().vocabulary);
  sequences_.at(number)->append(tokens);
}

void Generator::leave(std::uint64_t number) { sequences_.erase(number); }

std::vector<GeneratedToken> Generator::step() {
  std::vector<at::Tensor> logits(sequences_.size());
  std::vector<std::function<void()>> passes;
  for (auto& [number, sequence] : sequences_)
    passes.emplace_back([&each = *sequence, &result = logits[passes.size()]] { result = each.read(); });
  if (passes.empty()) return {};
  for (const std::exception_ptr& thrown : products_.run(passes))
    if (thrown) std::rethrow_exception(thrown);
  std::vector<GeneratedToken> made;
  for (auto& [number, sequence] : sequences_) made.push_back({number, sequence->choose(logits[made.size()])});
  return made;
}

std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const runs::SamplingOptions& options,
                          const std::function<bool(Token)>& on_token) {
  Generator generator(model);
  generator.enter(0, {prompt.begin(), prompt.end()}, options);
  std::vector<Token> tokens;
  while (std::ssize(tokens) < options.length) {
    tokens.push_back(generator.step().front().chosen.token);
    if (on_token && !on_token(tokens.back())) break;
  }
  return tokens;
}

}  // namespace cogwheel::tasks::language
