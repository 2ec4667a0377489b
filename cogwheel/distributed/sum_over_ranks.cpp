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
      parts_of_(tensors.size()),
      is_there_(tensors.size(), false),
      flat_(tensors.size()),
      own_sums_(sums.stay_with_owners ? tensors.size() : 0) {
  struct Bucket {
    std::size_t adders;
    std::vector<ExchangePlan> plans;
  };
  std::vector<Bucket> buckets;
  std::vector<std::int64_t> numbers;
  for (const Summand& each : tensors_) numbers.push_back(each.size);
  for (std::size_t by = 0; by < adders_.size(); ++by) {
    const std::int64_t ranks = adders_[by].group->count();
    if (ranks == 1) continue;
    std::vector<std::size_t> last_to_first;
    for (std::size_t index = tensors_.size(); index-- > 0;)
      if (tensors_[index].adders == by) last_to_first.push_back(index);
    for (std::vector<ExchangePlan>& plans : planned_buckets(last_to_first, numbers, Owners(ranks, sums_.unit)))
      buckets.push_back({by, std::move(plans)});
  }
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& one, const Bucket& other) {
    return one.plans.back().pieces.back().tensor > other.plans.back().pieces.back().tensor;
  });
  for (Bucket& bucket : buckets)
    for (ExchangePlan& plan : bucket.plans) {
      for (const ExchangePiece& piece : plan.pieces) parts_of_[piece.tensor].push_back(parts_.size());
      const std::size_t pieces = plan.pieces.size();
      parts_.push_back({.adders = bucket.adders,
                        .plan = std::move(plan),
                        .ends_bucket = &plan == &bucket.plans.back(),
                        .missing = pieces});
    }
}

void SumOverRanks::ready(std::size_t index, const at::Tensor& tensor) {
  if (is_there_[index]) throw std::logic_error("sum over ranks: a tensor came twice");
  is_there_[index] = true;
  const at::NoGradGuard no_gradient;
  const at::Tensor flat = tensor.view(-1);
  if (!sums_.stay_with_owners) flat_[index] = flat;
  if (sums_.stay_with_owners && parts_of_[index].empty()) own_sums_[index] = flat;
  for (const std::size_t number : parts_of_[index]) {
    Part& part = parts_[number];
    const Owners owners = owners_of(part);
    if (!part.numbers.defined()) part.numbers = at::empty({owners.ranks(), part.plan.length}, flat.options());
    for (const ExchangePiece& piece : part.plan.pieces)
      if (piece.tensor == index) {
        put_piece(part.numbers, piece, flat, owners);
        --part.missing;
      }
    // Of a tensor of many buckets the first ones have gone before the last ones are filled.
    const auto start = WallClock::now();
    begin_full_buckets();
    waited_ += seconds_since(start);
  }
}

// Exchanges begin in one order on every rank: those of a bucket, then the sums of the one before it. When the tensors
// have come of which these are sums, sums that the same group sent before them have come too: nothing waits for them.
void SumOverRanks::begin_full_buckets() {
  for (std::size_t last = begun_; last < parts_.size() && parts_[last].missing == 0; ++last) {
    if (!parts_[last].ends_bucket) continue;
    const std::size_t before = begun_;
    for (; begun_ <= last; ++begun_) {
      Part& part = parts_[begun_];
      part.exchange = group_of(part).exchange(part.numbers, what_);
    }
    const std::size_t have_come = std::exchange(sent_before_, summed_);
    while (summed_ < before) send_sum(parts_[summed_++]);
    while (!sums_.stay_with_owners && taken_ < have_come) take_sum(parts_[taken_++]);
  }
}

void SumOverRanks::send_sum(Part& part) {
  const Group& group = group_of(part);
  const at::Tensor of_ranks = part.exchange.result(what_);
  std::vector<at::Tensor> sums;
  const std::int64_t neighbours = adders_[part.adders].neighbours, ranks = group.count();
  for (std::int64_t first = 0; first < neighbours; ++first)
    for (std::int64_t rank = first; rank < ranks; rank += neighbours) sums.push_back(of_ranks[rank]);
  for (std::size_t added = 1; added < sums.size(); added *= 2)
    for (std::size_t place = 0; place + added < sums.size(); place += 2 * added) sums[place].add_(sums[place + added]);
  part.numbers.reset();
  if (!sums_.stay_with_owners) {
    part.exchange = group.gather(sums.front().clone(), what_);  // what the others sent is not held any longer
    return;
  }
  const Owners owners = owners_of(part);
  for (const ExchangePiece& piece : part.plan.pieces) {
    const std::int64_t numbers = tensors_[piece.tensor].size;
    at::Tensor& own = own_sums_[piece.tensor];
    if (!own.defined()) own = at::empty({owners.size(numbers, group.rank())}, sums.front().options());
    if (const std::int64_t size = owned_of_piece(piece, numbers, group.rank(), owners); size > 0)
      own.narrow(0, piece.of_stretch, size).copy_(sums.front().narrow(0, piece.column, size));
  }
}

void SumOverRanks::take_sum(Part& part) {
  const at::Tensor sums = part.exchange.result(what_);
  for (const ExchangePiece& piece : part.plan.pieces) take_piece(flat_[piece.tensor], piece, sums, owners_of(part));
  part = {.adders = part.adders};
}

void SumOverRanks::finish() {
  const at::NoGradGuard no_gradient;
  while (summed_ < parts_.size()) send_sum(parts_[summed_++]);
  while (taken_ < parts_.size()) take_sum(parts_[taken_++]);
}

std::vector<at::Tensor> SumOverRanks::finish_own() {
  const at::NoGradGuard no_gradient;
  while (summed_ < parts_.size()) send_sum(parts_[summed_++]);
  return std::move(own_sums_);
}

}  // namespace cogwheel::distributed
