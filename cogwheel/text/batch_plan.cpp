#include "cogwheel/text/batch_plan.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"

namespace cogwheel::text {

namespace {

// With `end` after either sentence, or `begin` before it.
std::vector<BatchPlan::Columns> columns_of(const SentencePairs& pairs) {
  std::vector<BatchPlan::Columns> columns;
  for (std::int64_t pair = 0; pair < pairs.size(); ++pair)
    columns.push_back({std::ssize(pairs.source(pair)) + 1, std::ssize(pairs.target(pair)) + 1});
  return columns;
}

}  // namespace

BatchPlan::BatchPlan(const SentencePairs& pairs, const BatchSize& size) : BatchPlan(columns_of(pairs), size) {}

BatchPlan::BatchPlan(std::span<const Columns> rows, const BatchSize& size) : order_(rows.size()) {
  if (size.sentences < 0 || size.tokens < 0 || (size.sentences == 0 && size.tokens == 0))
    throw UsageError(
        expected_got("batch", "a number of sentences or tokens, at least 1",
                     std::to_string(size.sentences) + " sentences and " + std::to_string(size.tokens) + " tokens"));
  const auto columns = [&](std::int64_t row) { return rows[static_cast<std::size_t>(row)]; };
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int64_t a, std::int64_t b) { return columns(a) < columns(b); });
  const auto all = std::ssize(rows);
  const auto at = [&](std::int64_t place) { return order_[static_cast<std::size_t>(place)]; };
  for (std::int64_t place = 0; place < all; ++place)
    if (place == 0 || columns(at(place)) != columns(at(place - 1))) groups_.push_back(place);
  groups_.push_back(all);

  if (size.tokens == 0) {
    // Even shares, rather than a rest of a few pairs that would weigh as much as a whole batch.
    const std::int64_t count = (all + size.sentences - 1) / size.sentences;
    for (std::int64_t batch = 1; batch <= count; ++batch) ends_.push_back(batch * all / count);
    return;
  }
  Columns widest;
  std::int64_t count = 0;
  for (std::int64_t place = 0; place < all; ++place) {
    const Columns own = columns(at(place));
    const auto widened = [&] {
      return Columns{std::max(widest.source, own.source), std::max(widest.target, own.target)};
    };
    const std::int64_t width = widened().source + widened().target;
    if (count > 0 && ((count + 1) * width > size.tokens || count == size.sentences)) {
      ends_.push_back(place);
      count = 0;
      widest = {};
    }
    widest = widened();
    ++count;
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

}  // namespace cogwheel::text
