#include "cogwheel/distributed/sum_over_ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cogwheel/core/process/wall_clock.h"

namespace cogwheel::distributed {

SumOverRanks::SumOverRanks(std::vector<Adders> adders, const std::vector<Summand>& tensors, std::string what, Sums sums)
    : adders_(std::move(adders)),
      tensors_(tensors),
      what_(std::move(what)),
      sums_(sums),
      buckets_of_(tensors.size()),
      is_there_(tensors.size(), false),
      own_sums_(sums.stay_with_owners ? tensors.size() : 0) {
  std::vector<std::int64_t> numbers;
  for (const Summand& each : tensors_) numbers.push_back(each.size);
  for (std::size_t by = 0; by < adders_.size(); ++by) {
    const std::int64_t ranks = adders_[by].group->count();
    if (ranks == 1) continue;
    std::vector<std::size_t> last_to_first;
    for (std::size_t index = tensors_.size(); index-- > 0;)
      if (tensors_[index].adders == by) last_to_first.push_back(index);
    for (BucketPlan& plan : planned_buckets(last_to_first, numbers, Owners(ranks, sums_.unit))) {
      const std::size_t pieces = plan.pieces.size();
      buckets_.push_back({.adders = by, .plan = std::move(plan), .missing = pieces});
    }
  }
  std::stable_sort(buckets_.begin(), buckets_.end(), [](const Bucket& one, const Bucket& other) {
    return one.plan.pieces.back().tensor > other.plan.pieces.back().tensor;
  });
  for (std::size_t number = 0; number < buckets_.size(); ++number)
    for (const BucketPiece& piece : buckets_[number].plan.pieces) buckets_of_[piece.tensor].push_back(number);
}

void SumOverRanks::ready(std::size_t index, const at::Tensor& tensor) {
  if (is_there_[index]) throw std::logic_error("sum over ranks: a tensor came twice");
  is_there_[index] = true;
  const at::NoGradGuard no_gradient;
  const at::Tensor flat = tensor.contiguous().view(-1);
  if (sums_.stay_with_owners && buckets_of_[index].empty()) own_sums_[index] = flat;
  for (const std::size_t number : buckets_of_[index]) {
    Bucket& bucket = buckets_[number];
    const Owners owners = owners_of(bucket);
    if (!bucket.numbers.defined()) bucket.numbers = at::empty({owners.ranks(), bucket.plan.length}, flat.options());
    for (const BucketPiece& piece : bucket.plan.pieces)
      if (piece.tensor == index) {
        BucketPlan::put(bucket.numbers, piece, flat, owners);
        --bucket.missing;
      }
  }
  const auto start = WallClock::now();
  begin_full_buckets();
  waited_ += seconds_since(start);
}

// Exchanges begin in one order on every rank: a bucket, then the sum of the one before it.
void SumOverRanks::begin_full_buckets() {
  while (begun_ < buckets_.size() && buckets_[begun_].missing == 0) {
    Bucket& bucket = buckets_[begun_++];
    const Group& group = group_of(bucket);
    bucket.exchange = group.exchange(bucket.numbers, what_);
    if (begun_ > 1) send_sum(buckets_[summed_++]);
  }
}

void SumOverRanks::send_sum(Bucket& bucket) {
  const Group& group = group_of(bucket);
  const at::Tensor of_ranks = bucket.exchange.result(what_);
  std::vector<at::Tensor> sums;
  const std::int64_t neighbours = adders_[bucket.adders].neighbours, ranks = group.count();
  for (std::int64_t first = 0; first < neighbours; ++first)
    for (std::int64_t rank = first; rank < ranks; rank += neighbours) sums.push_back(of_ranks[rank]);
  for (std::size_t added = 1; added < sums.size(); added *= 2)
    for (std::size_t place = 0; place + added < sums.size(); place += 2 * added) sums[place].add_(sums[place + added]);
  bucket.numbers.reset();
  if (!sums_.stay_with_owners) {
    bucket.exchange = group.gather(sums.front(), what_);
    return;
  }
  const Owners owners = owners_of(bucket);
  for (const BucketPiece& piece : bucket.plan.pieces) {
    const std::int64_t numbers = tensors_[piece.tensor].size;
    at::Tensor& own = own_sums_[piece.tensor];
    if (!own.defined()) own = at::empty({owners.size(numbers, group.rank())}, sums.front().options());
    if (const std::int64_t size = BucketPlan::owned(piece, numbers, group.rank(), owners); size > 0)
      own.narrow(0, piece.of_stretch, size).copy_(sums.front().narrow(0, piece.column, size));
  }
}

void SumOverRanks::finish(const std::vector<at::Tensor>& tensors) {
  if (buckets_.empty()) return;
  const at::NoGradGuard no_gradient;
  for (std::size_t index = tensors.size(); index-- > 0;)
    if (!is_there_[index]) ready(index, tensors[index]);
  while (summed_ < buckets_.size()) send_sum(buckets_[summed_++]);
  for (Bucket& bucket : buckets_) {
    const at::Tensor sums = bucket.exchange.result(what_);
    for (const BucketPiece& piece : bucket.plan.pieces)
      BucketPlan::take(tensors[piece.tensor].view(-1), piece, sums, owners_of(bucket));
    bucket = {.adders = bucket.adders};
  }
}

std::vector<at::Tensor> SumOverRanks::finish_own() {
  const at::NoGradGuard no_gradient;
  while (summed_ < buckets_.size()) send_sum(buckets_[summed_++]);
  return std::move(own_sums_);
}

}  // namespace cogwheel::distributed
