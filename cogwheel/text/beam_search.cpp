#include "cogwheel/text/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cogwheel::text {

BeamSearch::BeamSearch(std::span<const std::int64_t> longest, std::optional<Token> end, std::int64_t beam,
                       double penalty)
    : end_(end), width_(beam), penalty_(penalty), beams_(longest.size()) {
  for (std::size_t source = 0; source < longest.size(); ++source) beams_[source].longest = longest[source];
}

bool BeamSearch::advance(std::span<const std::vector<NextToken>> likeliest) {
  parents.clear();
  last_tokens.clear();
  std::size_t row = 0;
  for (Beam& beam : beams_) {
    if (beam.done) continue;
    const auto first = static_cast<std::int64_t>(row);
    std::vector<Candidate> candidates;
    for (std::size_t parent = 0; parent < beam.open.size(); ++parent, ++row)
      for (const NextToken& next : likeliest[row])
        candidates.push_back({parent, next.token, beam.open[parent].log_probability + next.log_probability});
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
    continue_with(beam, candidates, first);
  }
  return !parents.empty();
}

std::vector<Hypothesis> BeamSearch::results() {
  std::vector<Hypothesis> found;
  for (Beam& beam : beams_) found.push_back(std::move(*beam.best));
  return found;
}

double BeamSearch::worth(double log_probability, std::size_t tokens) const {
  return log_probability / std::pow(static_cast<double>(tokens), penalty_);
}

void BeamSearch::consider(Beam& beam, const Hypothesis& hypothesis, bool ended) {
  const double value = worth(hypothesis.log_probability, hypothesis.tokens.size() + (ended ? 1 : 0));
  if (beam.best && value <= beam.best_worth) return;
  beam.best_worth = value;
  beam.best = {hypothesis.tokens, hypothesis.log_probability, ended};
}

void BeamSearch::continue_with(Beam& beam, const std::vector<Candidate>& candidates, std::int64_t first_row) {
  std::vector<Hypothesis> open;
  std::vector<std::int64_t> rows;
  const auto width = static_cast<std::size_t>(width_);
  for (std::size_t rank = 0; rank < candidates.size() && (open.size() < width || rank < width); ++rank) {
    const Candidate& candidate = candidates[rank];
    Hypothesis next = beam.open[candidate.parent];
    next.log_probability = candidate.log_probability;
    if (end_ && candidate.token == *end_) {
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
  beam.done = beam.open.empty() || beam.ended >= width_ || settled(beam);
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
bool BeamSearch::settled(const Beam& beam) const {
  if (!beam.best) return false;
  return std::all_of(beam.open.begin(), beam.open.end(), [&](const Hypothesis& each) {
    return worth(each.log_probability, static_cast<std::size_t>(beam.longest)) <= beam.best_worth;
  });
}

}  // namespace cogwheel::text
