#include "cogwheel/tasks/language/corpus_mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cogwheel::tasks::language {
namespace {

// Whole numbers that sum to the period, in proportion to the weights: rounded down, then the largest remainders up.
std::vector<std::int64_t> shares_of(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t corpus = 0; corpus < weights.size(); ++corpus) {
    const double exact = weights[corpus] / sum * static_cast<double>(CorpusMixture::period);
    shares.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(exact))));
    remainders.emplace_back(static_cast<double>(shares.back()) - exact, corpus);
  }
  std::sort(remainders.begin(), remainders.end());
  std::int64_t left = CorpusMixture::period - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (std::size_t next = 0; left > 0; next = (next + 1) % remainders.size(), --left) ++shares[remainders[next].second];
  // Corpora that were given more than their weight, at the cost of the largest.
  while (left++ < 0) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

}  // namespace

CorpusMixture::CorpusMixture(std::span<const double> weights) : shares_(shares_of(weights)) {
  if (weights.size() == 1) return;
  std::vector<std::int64_t> taken(weights.size(), 0);
  for (std::int64_t slot = 0; slot < period; ++slot) {
    std::size_t next = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (std::size_t corpus = 0; corpus < shares_.size(); ++corpus)
      if (const std::int64_t lack = shares_[corpus] * (slot + 1) - taken[corpus] * period; lack > most) {
        most = lack;
        next = corpus;
      }
    slots_.push_back({static_cast<std::uint16_t>(next), static_cast<std::uint16_t>(taken[next]++)});
  }
}

CorpusMixture::Place CorpusMixture::at(std::int64_t window) const {
  if (slots_.empty()) return {0, window};
  const Slot& slot = slots_[static_cast<std::size_t>(window % period)];
  return {slot.corpus, window / period * shares_[slot.corpus] + slot.of_corpus};
}

}  // namespace cogwheel::tasks::language
