#include "cogwheel/tasks/translation/beam_search.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::translation {
namespace {

struct Hypothesis {
  std::vector<Token> tokens;
  double log_probability = 0;
};

// The hypotheses of one source: those that go on, and the best that has ended.
struct Beam {
  std::vector<Hypothesis> open{{}};
  std::optional<Translation> best;
  double best_worth = -std::numeric_limits<double>::infinity();
  std::int64_t longest = 0, ended = 0;
  bool done = false;
};

double worth(double log_probability, std::size_t tokens, double penalty) {
  return log_probability / std::pow(static_cast<double>(tokens), penalty);
}

struct Candidate {
  std::size_t parent = 0;
  Token token = 0;
  double log_probability = 0;
};

class Search {
 public:
  Search(std::int64_t sources, const at::Tensor& lengths, Token end, const BeamOptions& options)
      : end_(end), options_(options), beams_(static_cast<std::size_t>(sources)) {
    const at::Tensor counts = lengths.cpu().contiguous();
    for (std::int64_t source = 0; source < sources; ++source)
      beams_[static_cast<std::size_t>(source)].longest = std::max<std::int64_t>(
          1, std::llround(options.longest_factor * static_cast<double>(counts.const_data_ptr<std::int64_t>()[source])) +
                 options.longest_more);
  }

  // One row of the model for each open hypothesis, source by source: the row of the step before that it continues, and
  // its last token.
  std::vector<std::int64_t> parents, last_tokens;

  // `probable` and `tokens` [rows, k]: the k most probable next tokens of each open hypothesis, best first. Returns
  // whether any goes on.
  bool advance(const at::Tensor& probable, const at::Tensor& tokens) {
    parents.clear();
    last_tokens.clear();
    const std::int64_t k = tokens.size(1);
    std::int64_t row = 0;
    for (Beam& beam : beams_) {
      if (beam.done) continue;
      const std::int64_t first = row;
      std::vector<Candidate> candidates;
      for (std::size_t parent = 0; parent < beam.open.size(); ++parent, ++row)
        for (std::int64_t i = 0; i < k; ++i)
          candidates.push_back(
              {parent, static_cast<Token>(tokens.const_data_ptr<std::int64_t>()[row * k + i]),
               beam.open[parent].log_probability + static_cast<double>(probable.const_data_ptr<float>()[row * k + i])});
      std::stable_sort(candidates.begin(), candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
      continue_with(beam, candidates, first);
    }
    return !parents.empty();
  }

  std::vector<Translation> results() {
    std::vector<Translation> found;
    for (Beam& beam : beams_) found.push_back(std::move(*beam.best));
    return found;
  }

 private:
  void consider(Beam& beam, const Hypothesis& hypothesis, bool ended) {
    const double value =
        worth(hypothesis.log_probability, hypothesis.tokens.size() + (ended ? 1 : 0), options_.length_penalty);
    if (beam.best && value <= beam.best_worth) return;
    beam.best_worth = value;
    beam.best = {hypothesis.tokens, hypothesis.log_probability, ended};
  }

  void continue_with(Beam& beam, const std::vector<Candidate>& candidates, std::int64_t first_row) {
    std::vector<Hypothesis> open;
    std::vector<std::int64_t> rows;
    const auto width = static_cast<std::size_t>(options_.beam);
    for (std::size_t rank = 0; rank < candidates.size() && (open.size() < width || rank < width); ++rank) {
      const Candidate& candidate = candidates[rank];
      Hypothesis next = beam.open[candidate.parent];
      next.log_probability = candidate.log_probability;
      if (candidate.token == end_) {
        // What is not among the best may not end: it would win by its few tokens.
        if (rank >= width) continue;
        consider(beam, next, true);
        ++beam.ended;
      } else if (open.size() < width) {
        next.tokens.push_back(candidate.token);
        open.push_back(std::move(next));
        rows.push_back(first_row + static_cast<std::int64_t>(candidate.parent));
      }
    }
    beam.open = std::move(open);
    beam.done = beam.open.empty() || beam.ended >= options_.beam || settled(beam);
    if (!beam.done && std::ssize(beam.open.front().tokens) >= beam.longest) {
      if (!beam.best)
        for (const Hypothesis& each : beam.open) consider(beam, each, false);
      beam.done = true;
    }
    if (beam.done) return;
    parents.insert(parents.end(), rows.begin(), rows.end());
    for (const Hypothesis& each : beam.open) last_tokens.push_back(static_cast<std::int64_t>(each.tokens.back()));
  }

  // Whether no open hypothesis can become worth more than the best that has ended, even if all that follows is certain.
  bool settled(const Beam& beam) const {
    if (!beam.best) return false;
    return std::all_of(beam.open.begin(), beam.open.end(), [&](const Hypothesis& each) {
      return worth(each.log_probability, static_cast<std::size_t>(beam.longest), options_.length_penalty) <=
             beam.best_worth;
    });
  }

  Token end_;
  BeamOptions options_;
  std::vector<Beam> beams_;
};

}  // namespace

std::vector<Translation> beam_search(SequenceToSequence& model, const at::Tensor& sources, const at::Tensor& lengths,
                                     Token begin, Token end, const BeamOptions& options) {
  expect_within("beam", options.beam, beam_range);
  expect_within("length penalty", options.length_penalty, length_penalty_range);
  const torch::NoGradGuard no_grad;
  if (sources.size(0) == 0) return {};
  Search search(sources.size(0), lengths, end, options);
  DecoderState state = model->read(sources, lengths);
  at::Tensor tokens = at::full({sources.size(0)}, static_cast<std::int64_t>(begin), sources.options());
  while (true) {
    const at::Tensor logits = model->logits(model->step(state, tokens));
    // One more than the beam, since the end may be among them.
    const auto k = std::min<std::int64_t>(options.beam + 1, logits.size(-1));
    const auto [best, chosen] = logits.topk(k, -1);
    const at::Tensor probable = (best - logits.logsumexp(-1, true)).to(at::kFloat).cpu().contiguous();
    if (!probable.isfinite().all().item<bool>())
      throw Error(expected_got("beam search", "finite logits", "NaN or infinity from the model"));
    if (!search.advance(probable, chosen.cpu().contiguous())) return search.results();
    state = state.of_entries(torch::tensor(search.parents));
    tokens = torch::tensor(search.last_tokens).to(sources.device());
  }
}

at::Tensor alignment_weights(SequenceToSequence& model, const at::Tensor& sources, const at::Tensor& lengths,
                             Token begin, std::span<const Translation> translations) {
  if (!model->aligns())
    throw UsageError(expected_got("alignment_weights", "a model with an alignment", model->options().mechanism));
  if (std::ssize(translations) != sources.size(0))
    throw UsageError(expected_got("alignment_weights: translations", std::to_string(sources.size(0)) + ", as sources",
                                  std::to_string(translations.size())));
  const torch::NoGradGuard no_grad;
  std::int64_t longest = 0;
  for (const Translation& translation : translations) longest = std::max(longest, std::ssize(translation.tokens));
  at::Tensor inputs = at::full({sources.size(0), longest + 1}, static_cast<std::int64_t>(begin), at::kLong);
  at::Tensor made = at::zeros({sources.size(0), 1, longest + 1, 1}, at::kBool);
  for (std::int64_t row = 0; row < sources.size(0); ++row) {
    const std::vector<Token>& tokens = translations[static_cast<std::size_t>(row)].tokens;
    for (std::int64_t place = 0; place < std::ssize(tokens); ++place)
      inputs[row][place + 1] = static_cast<std::int64_t>(tokens[static_cast<std::size_t>(place)]);
    made[row].narrow(1, 0, std::ssize(tokens) + 1).fill_(true);
  }
  const at::Tensor weights = model->weights(model->read(sources, lengths), inputs.to(sources.device()));
  return weights * made.to(weights.device());
}

}  // namespace cogwheel::tasks::translation
