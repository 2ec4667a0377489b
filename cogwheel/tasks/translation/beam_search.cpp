#include "cogwheel/tasks/translation/beam_search.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/text/beam_search.h"

namespace cogwheel::tasks::translation {
namespace {

std::vector<std::int64_t> longest_translations(const at::Tensor& lengths, const BeamOptions& options,
                                               std::int64_t readable) {
  const at::Tensor counts = lengths.cpu().contiguous();
  std::vector<std::int64_t> longest;
  for (std::int64_t source = 0; source < counts.numel(); ++source)
    longest.push_back(std::clamp<std::int64_t>(
        std::llround(options.longest_factor * static_cast<double>(counts.const_data_ptr<std::int64_t>()[source])) +
            options.longest_more,
        1, readable));
  return longest;
}

// `probable` and `tokens` [rows, k], best first.
std::vector<std::vector<text::NextToken>> next_tokens(const at::Tensor& probable, const at::Tensor& tokens) {
  const std::int64_t k = tokens.size(1);
  std::vector<std::vector<text::NextToken>> rows(static_cast<std::size_t>(tokens.size(0)));
  for (std::int64_t index = 0; index < tokens.numel(); ++index)
    rows[static_cast<std::size_t>(index / k)].push_back(
        {static_cast<Token>(tokens.const_data_ptr<std::int64_t>()[index]), probable.const_data_ptr<float>()[index]});
  return rows;
}

}  // namespace

std::vector<Translation> beam_search(Translator& model, const at::Tensor& sources, const at::Tensor& lengths,
                                     Token begin, Token end, const BeamOptions& options) {
  expect_within("beam", options.beam, beam_range);
  expect_within("length penalty", options.length_penalty, length_penalty_range);
  const torch::NoGradGuard no_grad;
  if (sources.size(0) == 0) return {};
  text::BeamSearch search(longest_translations(lengths, options, model.longest()), end, options.beam,
                          options.length_penalty);
  std::unique_ptr<Translator::State> state = model.start(sources, lengths);
  at::Tensor tokens = at::full({sources.size(0)}, static_cast<std::int64_t>(begin), sources.options());
  while (true) {
    const at::Tensor logits = model.next_logits(*state, tokens);
    // One more than the beam, since the end may be among them.
    const auto k = std::min<std::int64_t>(options.beam + 1, logits.size(-1));
    const auto [best, chosen] = logits.topk(k, -1);
    const at::Tensor probable = (best - logits.logsumexp(-1, true)).to(at::kFloat).cpu().contiguous();
    if (!probable.isfinite().all().item<bool>())
      throw Error(expected_got("beam search", "finite logits", "NaN or infinity from the model"));
    if (!search.advance(next_tokens(probable, chosen.cpu().contiguous()))) {
      std::vector<Translation> found;
      for (text::Hypothesis& each : search.results())
        found.push_back({std::move(each.tokens), each.log_probability, each.ended});
      return found;
    }
    state = state->fork(torch::tensor(search.parents));
    tokens = torch::tensor(search.last_tokens).to(sources.device());
  }
}

at::Tensor alignment_weights(Translator& model, const at::Tensor& sources, const at::Tensor& lengths, Token begin,
                             std::span<const Translation> translations, std::optional<std::int64_t> layer) {
  if (!model.aligns()) throw UsageError(expected_got("alignment_weights", "a model with an alignment", "none"));
  if (std::ssize(translations) != sources.size(0))
    throw UsageError(expected_got("alignment_weights: translations", std::to_string(sources.size(0)) + ", as sources",
                                  std::to_string(translations.size())));
  const torch::NoGradGuard no_grad;
  std::int64_t longest = 0;
  for (const Translation& translation : translations) longest = std::max(longest, std::ssize(translation.tokens));
  const std::int64_t steps = std::min(longest + 1, model.longest());
  at::Tensor inputs = at::full({sources.size(0), steps}, static_cast<std::int64_t>(begin), at::kLong);
  at::Tensor made = at::zeros({sources.size(0), 1, steps, 1}, at::kBool);
  for (std::int64_t row = 0; row < sources.size(0); ++row) {
    const std::vector<Token>& tokens = translations[static_cast<std::size_t>(row)].tokens;
    for (std::int64_t place = 0; place < std::min(std::ssize(tokens), steps - 1); ++place)
      inputs[row][place + 1] = static_cast<std::int64_t>(tokens[static_cast<std::size_t>(place)]);
    made[row].narrow(1, 0, std::min(std::ssize(tokens) + 1, steps)).fill_(true);
  }
  const at::Tensor weights = model.source_weights(sources, lengths, inputs.to(sources.device()), layer);
  return weights * made.to(weights.device());
}

}  // namespace cogwheel::tasks::translation
