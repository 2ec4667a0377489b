#include "cogwheel/distributed/sum_over_ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace cogwheel::distributed {

std::int64_t SumOverRanks::bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks) {
  constexpr std::int64_t buckets = 16, least = 4 << 20, most = 24 << 20, of_a_rank = 64 << 10;
  return std::max(std::clamp(all_bytes / buckets, least, most), ranks * of_a_rank);
}

SumOverRanks::SumOverRanks(std::vector<Adders> adders, const std::vector<Summand>& tensors, std::string what)
    : adders_(std::move(adders)),
      what_(std::move(what)),
      buckets_of_(tensors.size()),
      is_there_(tensors.size(), false) {
  constexpr auto bytes_of_number = static_cast<std::int64_t>(sizeof(float));
  for (std::size_t by = 0; by < adders_.size(); ++by) {
    const std::int64_t ranks = adders_[by].group->count();
    if (ranks == 1) continue;
    std::int64_t numbers = 0;
    for (const Summand& each : tensors) numbers += each.adders == by ? each.size : 0;
    const std::int64_t of_a_bucket = bytes_of_a_bucket(numbers * bytes_of_number, ranks) / bytes_of_number;
    Bucket* open = nullptr;
    for (std::size_t index = tensors.size(); index-- > 0;) {
      if (tensors[index].adders != by) continue;
      for (std::int64_t taken = 0; taken < tensors[index].size;) {
        if (open == nullptr || open->size == of_a_bucket) open = &buckets_.emplace_back(Bucket{.adders = by});
        const std::int64_t size = std::min(tensors[index].size - taken, of_a_bucket - open->size);
        open->pieces.push_back({index, taken, open->size, size});
        open->size += size, open->missing += size;
        taken += size;
      }
    }
  }
  std::stable_sort(buckets_.begin(), buckets_.end(), [](const Bucket& one, const Bucket& other) {
    return one.pieces.back().tensor > other.pieces.back().tensor;
  });
  for (std::size_t number = 0; number < buckets_.size(); ++number)
    for (const Piece& piece : buckets_[number].pieces) buckets_of_[piece.tensor].push_back(number);
}

void SumOverRanks::ready(std::size_t index, const at::Tensor& tensor) {
  if (is_there_[index]) throw std::logic_error("sum over ranks: a tensor came twice");
  is_there_[index] = true;
  const at::NoGradGuard no_gradient;
  const at::Tensor flat = tensor.reshape(-1);
  for (const std::size_t number : buckets_of_[index]) {
    Bucket& bucket = buckets_[number];
    if (!bucket.numbers.defined()) {
      const std::int64_t ranks = group_of(bucket).count(), share = (bucket.size + ranks - 1) / ranks;
      bucket.numbers = at::empty({share * ranks}, flat.options());
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
    const Group& group = group_of(bucket);
    bucket.exchange = group.exchange(bucket.numbers.view({group.count(), -1}), what_);
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
  bucket.exchange = group.gather(sums.front(), what_);
}

void SumOverRanks::finish(const std::vector<at::Tensor>& tensors) {
  if (buckets_.empty()) return;
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
    bucket = {.adders = bucket.adders};
  }
}

}  // namespace cogwheel::distributed
