#include "cogwheel/data/batch_plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

#include "cogwheel/core/error.h"
#include "cogwheel/data/counted_random.h"

namespace cogwheel {

BatchPlan::BatchPlan(const SentencePairs& pairs, const BatchSize& size)
    : order_(static_cast<std::size_t>(pairs.size())) {
  if (size.sentences < 0 || size.tokens < 0 || (size.sentences == 0 && size.tokens == 0))
    throw UsageError(
        expected_got("batch", "a number of sentences or tokens, at least 1",
                     std::to_string(size.sentences) + " sentences and " + std::to_string(size.tokens) + " tokens"));
  const auto lengths = [&](std::int64_t pair) {
    return std::tuple(std::ssize(pairs.source(pair)), std::ssize(pairs.target(pair)));
  };
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int64_t a, std::int64_t b) { return lengths(a) < lengths(b); });
  const std::int64_t all = pairs.size();
  const auto at = [&](std::int64_t place) { return order_[static_cast<std::size_t>(place)]; };
  for (std::int64_t place = 0; place < all; ++place)
    if (place == 0 || lengths(at(place)) != lengths(at(place - 1))) groups_.push_back(place);
  groups_.push_back(all);

  if (size.tokens == 0) {
    // Even shares, rather than a rest of a few pairs that would weigh as much as a whole batch.
    const std::int64_t count = (all + size.sentences - 1) / size.sentences;
    for (std::int64_t batch = 1; batch <= count; ++batch) ends_.push_back(batch * all / count);
    return;
  }
  std::int64_t longest_source = 0, longest_target = 0, rows = 0;
  for (std::int64_t place = 0; place < all; ++place) {
    const auto [source, target] = lengths(at(place));
    const auto grown = [](std::int64_t longest, std::int64_t length) { return std::max(longest, length + 1); };
    const std::int64_t width = grown(longest_source, source) + grown(longest_target, target);
    if (rows > 0 && ((rows + 1) * width > size.tokens || rows == size.sentences)) {
      ends_.push_back(place);
      rows = longest_source = longest_target = 0;
    }
    longest_source = grown(longest_source, source);
    longest_target = grown(longest_target, target);
    ++rows;
  }
  ends_.push_back(all);
}

std::span<const std::int64_t> BatchPlan::pairs_in_order(std::int64_t batch) const {
  return std::span(order_).subspan(static_cast<std::size_t>(begin(batch)),
                                   static_cast<std::size_t>(ends_[static_cast<std::size_t>(batch)] - begin(batch)));
}

std::vector<std::int64_t> BatchPlan::pairs(std::uint64_t seed, std::int64_t step) const {
  const auto count = static_cast<std::uint64_t>(batches());
  const std::uint64_t epoch = static_cast<std::uint64_t>(step) / count,
                      place = static_cast<std::uint64_t>(step) % count;
  // 0 for the order of batches; groups follow.
  const auto batch = static_cast<std::int64_t>(SeededPermutation(count, random_of({seed, epoch, 0}))(place));
  std::vector<std::int64_t> chosen;
  auto group = std::upper_bound(groups_.begin(), groups_.end(), begin(batch)) - 1;
  for (std::int64_t at = begin(batch); at < ends_[static_cast<std::size_t>(batch)]; ++at) {
    if (at == *(group + 1)) ++group;
    const auto first = static_cast<std::uint64_t>(*group), members = static_cast<std::uint64_t>(*(group + 1)) - first;
    const SeededPermutation shuffled(members, random_of({seed, epoch, first + 1}));
    chosen.push_back(order_[first + shuffled(static_cast<std::uint64_t>(at) - first)]);
  }
  return chosen;
}

}  // namespace cogwheel
