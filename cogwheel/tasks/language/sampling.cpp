#include "cogwheel/tasks/language/sampling.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {
namespace {

Token draw(std::span<const float> logits, const runs::SamplingOptions& options, std::mt19937_64& generator) {
  if (options.temperature == 0)
    return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<Token> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), Token{0});
  // The most probable first; among equals the lower token first.
  std::stable_sort(tokens.begin(), tokens.end(), [&](Token a, Token b) { return logits[a] > logits[b]; });
  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(tokens.size()))
    tokens.resize(static_cast<std::size_t>(options.top_k));
  std::vector<double> cumulative;
  double total = 0;
  for (const Token token : tokens)
    cumulative.push_back(total +=
                         std::exp((static_cast<double>(logits[token]) - logits[tokens.front()]) / options.temperature));
  const auto drawn = std::upper_bound(cumulative.begin(), cumulative.end(), uniform_number(generator) * total);
  return tokens[std::min<std::size_t>(static_cast<std::size_t>(drawn - cumulative.begin()), tokens.size() - 1)];
}

// The logits of the last token of a text that grows by one token from call to call.
class LastLogits {
 public:
  explicit LastLogits(LanguageModel& model) : model_(model) {
    if (model->can_decode()) state_ = model->make_state(1);
  }

  at::Tensor operator()(std::span<const Token> text) {
    const auto context = static_cast<std::size_t>(model_->options().context);
    if (std::ssize(text) > model_->longest_text() || !state_) {
      state_.reset();
      return model_->forward(as_tensor(text.last(std::min(text.size(), context)))).select(1, -1);
    }
    const std::span<const Token> added = text.subspan(static_cast<std::size_t>(state_->longest()));
    return model_->forward(as_tensor(added), {.state = &*state_}).select(1, -1);
  }

 private:
  static at::Tensor as_tensor(std::span<const Token> tokens) {
    return torch::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
  }

  LanguageModel& model_;
  std::optional<nn::ModelState>
      state_;  // for a text within the context; none beyond it, or for a model that cannot decode
};

}  // namespace

std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const runs::SamplingOptions& options,
                          const std::function<bool(Token)>& on_token) {
  runs::check(options);
  const torch::NoGradGuard no_grad;
  LastLogits last_logits(model);
  std::mt19937_64 generator(options.seed);
  std::vector<Token> text(prompt.begin(), prompt.end());
  if (text.empty()) text.push_back(0);
  const std::size_t start = text.size();
  while (static_cast<std::int64_t>(text.size() - start) < options.length) {
    const at::Tensor logits = last_logits(text).cpu().contiguous();
    if (!logits.isfinite().all().item<bool>())
      throw Error(expected_got("sample", "finite logits", "NaN or infinity from the model"));
    text.push_back(
        draw({logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, options, generator));
    if (on_token && !on_token(text.back())) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(start), text.end()};
}

}  // namespace cogwheel::tasks::language
