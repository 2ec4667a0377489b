#include "cogwheel/distributed/sum_over_ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace cogwheel::distributed {

std::int64_t SumOverRanks::bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks) {
  constexpr std::int64_t buckets = 16, least = 4 << 20, most = 24 << 20, of_a_rank = 64 << 10;
  return std::max(std::clamp(all_bytes / buckets, least, most), ranks * of_a_rank);
}

SumOverRanks::SumOverRanks(const Group& group, std::vector<std::int64_t> sizes, std::string what,
                           std::vector<std::int64_t> order)
    : group_(group),
      what_(std::move(what)),
      order_(std::move(order)),
      buckets_of_(sizes.size()),
      is_there_(sizes.size(), false) {
  constexpr auto bytes_of_number = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t numbers = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}),
                     of_a_bucket = bytes_of_a_bucket(numbers * bytes_of_number, group.count()) / bytes_of_number;
  for (std::size_t index = sizes.size(); index-- > 0;)
    for (std::int64_t taken = 0; taken < sizes[index];) {
      if (buckets_.empty() || buckets_.back().size == of_a_bucket) buckets_.emplace_back();
      Bucket& bucket = buckets_.back();
      const std::int64_t size = std::min(sizes[index] - taken, of_a_bucket - bucket.size);
      bucket.pieces.push_back({index, taken, bucket.size, size});
      bucket.size += size, bucket.missing += size;
      buckets_of_[index].push_back(buckets_.size() - 1);
      taken += size;
    }
}

void SumOverRanks::ready(std::size_t index, const at::Tensor& tensor) {
  if (is_there_[index]) throw std::logic_error("sum over ranks: a tensor came twice");
  is_there_[index] = true;
  const at::NoGradGuard no_gradient;
  const at::Tensor flat = tensor.reshape(-1);
  for (const std::size_t number : buckets_of_[index]) {
    Bucket& bucket = buckets_[number];
    if (!bucket.numbers.defined()) {
      const std::int64_t share = (bucket.size + group_.count() - 1) / group_.count();
      bucket.numbers = at::empty({share * group_.count()}, flat.options());
      // What is left of the last share adds nothing, the sign of 0 included.
      bucket.numbers.narrow(0, bucket.size, bucket.numbers.numel() - bucket.size).fill_(-0.0);
    }
    for (const Piece& piece : bucket.pieces)
      if (piece.tensor == index) {
        bucket.numbers.narrow(0, piece.of_bucket, piece.size).copy_(flat.narrow(0, piece.of_tensor, piece.size));
        bucket.missing -= piece.size;
      }
  }
  const auto start = std::chrono::steady_clock::now();
  begin_full_buckets();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Exchanges begin in one order on every rank: a bucket, then the sum of the one before it.
void SumOverRanks::begin_full_buckets() {
  while (begun_ < buckets_.size() && buckets_[begun_].missing == 0) {
    Bucket& bucket = buckets_[begun_++];
    bucket.exchange = group_.exchange(bucket.numbers.view({group_.count(), -1}), what_);
    if (begun_ > 1) send_sum(buckets_[summed_++]);
  }
}

void SumOverRanks::send_sum(Bucket& bucket) {
  const at::Tensor of_ranks = bucket.exchange.result(what_);
  const auto of = [&](std::int64_t place) { return of_ranks[order_[static_cast<std::size_t>(place)]]; };
  for (std::int64_t added = 1; added < group_.count(); added *= 2)
    for (std::int64_t place = 0; place + added < group_.count(); place += 2 * added) of(place).add_(of(place + added));
  bucket.numbers.reset();
  bucket.exchange = group_.gather(of(0), what_);
}

void SumOverRanks::finish(const std::vector<at::Tensor>& tensors) {
  if (group_.count() == 1) return;
  const at::NoGradGuard no_gradient;
  for (std::size_t index = tensors.size(); index-- > 0;)
    if (!is_there_[index]) ready(index, tensors[index]);
  while (summed_ < buckets_.size()) send_sum(buckets_[summed_++]);
  for (Bucket& bucket : buckets_) {
    const at::Tensor sums = bucket.exchange.result(what_).view(-1);
    for (const Piece& piece : bucket.pieces)
      tensors[piece.tensor]
          .view(-1)
          .narrow(0, piece.of_tensor, piece.size)
          .copy_(sums.narrow(0, piece.of_bucket, piece.size));
    bucket = {};
  }
}

}  // namespace cogwheel::distributed
