#include "cogwheel/tasks/language/beams.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/joined_products.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/token_choice.h"

namespace cogwheel::tasks::language {
namespace {

std::vector<text::NextToken> likeliest_next(const at::Tensor& given, std::int64_t count, std::int64_t vocabulary) {
  const at::Tensor logits = given.to(at::kCPU, at::kFloat).contiguous();
  if (!logits.isfinite().all().item<bool>())
    throw Error(expected_got("sample", "finite logits", "NaN or infinity from the model"));
  std::vector<text::NextToken> next;
  for (const TokenProbability& each :
       likeliest_tokens({logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, count, vocabulary))
    next.push_back({each.token, each.log_probability});
  return next;
}

at::Tensor one_token(std::int64_t token) { return at::full({1, 1}, token, at::kLong); }

}  // namespace

text::Hypothesis most_probable(LanguageModel& model, std::span<const Token> given, std::int64_t length,
                               std::int64_t beam, std::optional<Token> end, const std::function<bool()>& go_on,
                               nn::NumberType cache, std::int64_t vocabulary) {
  if (length == 0) return {};
  std::vector<Token> prompt(given.begin(), given.end());
  if (prompt.empty()) prompt.push_back(0);
  if (!model->can_decode())
    throw UsageError(expected_got("beam", "a model that keeps keys or a state", model->options().mechanism));
  if (length > model->longest_text())
    throw UsageError(expected_got("length", "at most " + std::to_string(model->longest_text()) + " with beams",
                                  std::to_string(length)));
  if (const std::int64_t room = model->longest_text() - length + 1; std::ssize(prompt) > room)
    throw UsageError(expected_got("prompt",
                                  "at most " + std::to_string(std::max<std::int64_t>(0, room)) + " tokens, with " +
                                      std::to_string(length) + " to follow by beams within the context",
                                  std::to_string(prompt.size())));
  const torch::NoGradGuard no_grad;
  nn::JoinedProducts products;
  std::vector<nn::ModelState> states;
  states.push_back(model->make_state(1, cache));
  std::vector<at::Tensor> logits(1);
  const auto run = [&](const std::vector<std::function<void()>>& passes) {
    for (const std::exception_ptr& thrown : products.run(passes))
      if (thrown) std::rethrow_exception(thrown);
  };
  run({[&] { logits[0] = read_in_blocks(model, states[0], prompt); }});
  const std::int64_t longest[] = {length};
  // One more than the beam, since the end may be among them.
  text::BeamSearch search(longest, end, beam, 1);
  while (true) {
    if (go_on && !go_on()) return {};
    std::vector<std::vector<text::NextToken>> next;
    for (const at::Tensor& of_row : logits) next.push_back(likeliest_next(of_row, beam + 1, vocabulary));
    if (!search.advance(next)) return search.results().front();
    std::vector<nn::ModelState> continued;
    // The last child takes its parent's state; copies are made before.
    std::vector<std::size_t> children(states.size());
    for (const std::int64_t parent : search.parents) ++children[static_cast<std::size_t>(parent)];
    for (const std::int64_t parent : search.parents) {
      const auto from = static_cast<std::size_t>(parent);
      if (--children[from] == 0)
        continued.push_back(std::move(states[from]));
      else
        continued.push_back(states[from].fork(at::zeros({1}, at::kLong)));
    }
    states = std::move(continued);
    logits.assign(states.size(), {});
    std::vector<std::function<void()>> passes;
    for (std::size_t row = 0; row < states.size(); ++row)
      passes.emplace_back(
          [&, row] { logits[row] = model->last_logits(one_token(search.last_tokens[row]), {.state = &states[row]}); });
    run(passes);
  }
}

}  // namespace cogwheel::tasks::language
