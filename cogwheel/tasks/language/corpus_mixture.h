// In which order windows of several corpora are seen.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace cogwheel::tasks::language {

// Window n of a training is window `of_corpus` of one corpus, counted from 0 among those of that corpus before it. Each
// has its share, rounded to a multiple of 2⁻¹⁶ and at least that, of every 2¹⁶ windows, and among the first n of these
// never less than its share by a whole one, nor more: the next window is always of the corpus that lacks most.
class CorpusMixture {
 public:
  static constexpr std::int64_t period = 1 << 16;
  static constexpr std::int64_t most_corpora = 1024;

  // Weights above 0, of 1 to `most_corpora` corpora; they need not sum to 1.
  explicit CorpusMixture(std::span<const double> weights);

  struct Place {
    std::int64_t corpus, of_corpus;
  };
  Place at(std::int64_t window) const;
  // Windows of every 2¹⁶.
  std::int64_t share(std::int64_t corpus) const { return shares_[static_cast<std::size_t>(corpus)]; }

 private:
  struct Slot {
    std::uint16_t corpus, of_corpus;  // within a period
  };
  std::vector<std::int64_t> shares_;
  std::vector<Slot> slots_;  // none for a single corpus
};

}  // namespace cogwheel::tasks::language
