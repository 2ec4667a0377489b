#include "cogwheel/distributed/ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace cogwheel::distributed {
namespace {

// Of an exchange that goes on while others are prepared and added up.
constexpr std::int64_t elements_of_a_bucket = 1 << 22, buckets_at_once = 8;

at::Tensor bytes_of(const std::string& text, std::int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

// A stretch of the elements of all tensors, one after the other.
struct Ranks::Bucket {
  std::vector<at::Tensor> parts;  // flat views
  at::Tensor own;
  Exchange exchange;

  // For so many owners of equal shares; what is left of the last share adds nothing, the sign of 0 included.
  void fill(std::int64_t owners) {
    std::int64_t elements = 0;
    for (const at::Tensor& part : parts) elements += part.numel();
    const std::int64_t share = (elements + owners - 1) / owners;
    own = at::empty({share * owners}, parts.front().options());
    std::int64_t place = 0;
    for (const at::Tensor& part : parts) {
      own.narrow(0, place, part.numel()).copy_(part);
      place += part.numel();
    }
    own.narrow(0, place, own.numel() - place).fill_(-0.0);
  }
  void empty_into_parts(const at::Tensor& sums) const {
    std::int64_t place = 0;
    for (const at::Tensor& part : parts) {
      at::Tensor(part).copy_(sums.narrow(0, place, part.numel()));
      place += part.numel();
    }
  }
};

Ranks::Ranks(std::string group, std::int64_t rank, std::int64_t count) : group_(std::move(group), rank, count) {
  if (!std::has_single_bit(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0))))
    throw UsageError(expected_got("ranks", "a power of two, as their sums are a binary tree", std::to_string(count)));
}

std::vector<std::string> Ranks::gathered(const std::string& own, const std::string& what) const {
  if (count() == 1) return {own};
  const auto gather = [&](const at::Tensor& input) { return group_.gather(input, what).result(what); };
  const at::Tensor lengths = gather(at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong));
  const auto* const length = lengths.const_data_ptr<std::int64_t>();
  const std::int64_t longest = *std::max_element(length, length + count());
  std::vector<std::string> all(static_cast<std::size_t>(count()));
  if (longest == 0) return all;
  const at::Tensor bytes = gather(bytes_of(own, longest));
  for (std::int64_t rank = 0; rank < count(); ++rank)
    all[static_cast<std::size_t>(rank)].assign(static_cast<const char*>(bytes.const_data_ptr()) + rank * longest,
                                               static_cast<std::size_t>(length[rank]));
  return all;
}

std::vector<std::vector<double>> Ranks::gathered(const std::vector<double>& own, const std::string& what) const {
  if (count() == 1) return {own};
  std::string bytes(own.size() * sizeof(double), '\0');
  if (!own.empty()) std::memcpy(bytes.data(), own.data(), bytes.size());
  std::vector<std::vector<double>> all;
  for (const std::string& each : gathered(bytes, what)) {
    all.emplace_back(each.size() / sizeof(double));
    if (!each.empty()) std::memcpy(all.back().data(), each.data(), each.size());
  }
  return all;
}

std::string Ranks::of_first(const std::string& own, const std::string& what) const {
  return gathered(is_first() ? own : std::string(), what).front();
}

void Ranks::copy_from_first(const std::vector<at::Tensor>& tensors, const std::string& what) const {
  if (count() == 1) return;
  const at::NoGradGuard no_gradient;
  for (const at::Tensor& tensor : tensors) at::Tensor(tensor).copy_(group_.from_first(tensor, what).result(what));
}

void Ranks::add(const std::vector<at::Tensor>& tensors, const std::string& what) const {
  if (count() == 1) return;
  std::vector<Bucket> buckets(1);
  std::int64_t room = elements_of_a_bucket;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor flat = tensor.view(-1);
    for (std::int64_t place = 0; place < flat.numel();) {
      if (room == 0) {
        buckets.emplace_back();
        room = elements_of_a_bucket;
      }
      const std::int64_t taken = std::min(room, flat.numel() - place);
      buckets.back().parts.push_back(flat.narrow(0, place, taken));
      place += taken;
      room -= taken;
    }
  }
  if (buckets.front().parts.empty()) return;
  const at::NoGradGuard no_gradient;
  for (std::size_t first = 0; first < buckets.size(); first += buckets_at_once) {
    const std::size_t last = std::min<std::size_t>(buckets.size(), first + buckets_at_once);
    for (std::size_t index = first; index < last; ++index) {
      Bucket& bucket = buckets[index];
      bucket.fill(count());
      bucket.exchange = group_.exchange(bucket.own.view({count(), -1}), what);
    }
    for (std::size_t index = first; index < last; ++index) {
      Bucket& bucket = buckets[index];
      const at::Tensor of_ranks = bucket.exchange.result(what);
      for (std::int64_t added = 1; added < count(); added *= 2)
        for (std::int64_t rank = 0; rank < count(); rank += 2 * added) of_ranks[rank].add_(of_ranks[rank + added]);
      bucket.exchange = group_.gather(of_ranks[0], what);
    }
    for (std::size_t index = first; index < last; ++index) {
      Bucket& bucket = buckets[index];
      bucket.empty_into_parts(bucket.exchange.result(what).view(-1));
      bucket = {};
    }
  }
}

}  // namespace cogwheel::distributed
