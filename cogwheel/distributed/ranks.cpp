#include "cogwheel/distributed/ranks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
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

// Gloo's "[file:line] Connection closed by peer [address]. This is typically …" without where and why it says so.
std::string short_problem(std::string problem) {
  if (const std::size_t place = problem.find("] "); problem.starts_with('[') && place != std::string::npos)
    problem.erase(0, place + 2);
  problem.resize(std::min(problem.find(". This is typically"), problem.size()));
  return one_line(problem);
}

at::Tensor bytes_of(const std::string& text, std::int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

// A stretch of the elements of all tensors, one after the other.
struct Ranks::Bucket {
  std::vector<at::Tensor> parts;  // flat views
  at::Tensor own, exchanged;

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

Ranks::Ranks(std::string group, std::int64_t rank, std::int64_t count)
    : group_(std::move(group)), rank_(rank), count_(count) {
  if (!std::has_single_bit(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0))))
    throw UsageError(expected_got("ranks", "a power of two, as their sums are a binary tree", std::to_string(count)));
}

at::Tensor Ranks::started(const char* operation, const at::Tensor& input, std::vector<c10::IValue> arguments) const {
  torch::jit::Stack stack{input};
  for (c10::IValue& argument : arguments) stack.push_back(std::move(argument));
  stack.emplace_back(group_);
  c10::Dispatcher::singleton().findSchemaOrThrow(operation, "").callBoxed(stack);
  return stack.back().toTensor();
}

at::Tensor Ranks::done(const at::Tensor& result) const {
  torch::jit::Stack stack{result};
  c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "").callBoxed(stack);
  return stack.back().toTensor();
}

template <class Exchange>
auto Ranks::exchanged(const std::string& what, const Exchange& exchange) const {
  const torch::NoGradGuard no_grad;
  std::string problem;
  try {
    return exchange();
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  throw LostRanks(expected_got(
      "ranks", "all " + std::to_string(count_) + " to go on",
      "on rank " + std::to_string(rank_) + ", in the exchange of " + what + ": " + short_problem(problem)));
}

std::vector<std::string> Ranks::gathered(const std::string& own, const std::string& what) const {
  if (count_ == 1) return {own};
  return exchanged(what, [&] {
    const auto gather = [&](const at::Tensor& input) {
      return done(started("_c10d_functional::all_gather_into_tensor", input, {count_}));
    };
    const at::Tensor lengths = gather(at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong));
    const auto* const length = lengths.const_data_ptr<std::int64_t>();
    const std::int64_t longest = *std::max_element(length, length + count_);
    std::vector<std::string> all(static_cast<std::size_t>(count_));
    if (longest == 0) return all;
    const at::Tensor bytes = gather(bytes_of(own, longest));
    for (std::int64_t rank = 0; rank < count_; ++rank)
      all[static_cast<std::size_t>(rank)].assign(static_cast<const char*>(bytes.const_data_ptr()) + rank * longest,
                                                 static_cast<std::size_t>(length[rank]));
    return all;
  });
}

std::vector<std::vector<double>> Ranks::gathered(const std::vector<double>& own, const std::string& what) const {
  if (count_ == 1) return {own};
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
  if (count_ == 1) return;
  exchanged(what, [&] {
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor dense = tensor.contiguous();
      at::Tensor(tensor).copy_(done(started("_c10d_functional::broadcast", dense, {std::int64_t{0}})));
    }
  });
}

void Ranks::add(const std::vector<at::Tensor>& tensors, const std::string& what) const {
  if (count_ == 1) return;
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
  exchanged(what, [&] {
    for (std::size_t first = 0; first < buckets.size(); first += buckets_at_once) {
      const std::size_t last = std::min<std::size_t>(buckets.size(), first + buckets_at_once);
      for (std::size_t index = first; index < last; ++index) {
        Bucket& bucket = buckets[index];
        bucket.fill(count_);
        const std::vector<std::int64_t> shares(static_cast<std::size_t>(count_), bucket.own.numel() / count_);
        bucket.exchanged = started("_c10d_functional::all_to_all_single", bucket.own, {shares, shares});
      }
      for (std::size_t index = first; index < last; ++index) {
        Bucket& bucket = buckets[index];
        const at::Tensor of_ranks = done(bucket.exchanged).view({count_, -1});
        for (std::int64_t added = 1; added < count_; added *= 2)
          for (std::int64_t rank = 0; rank < count_; rank += 2 * added) of_ranks[rank].add_(of_ranks[rank + added]);
        bucket.own = of_ranks[0];
        bucket.exchanged = started("_c10d_functional::all_gather_into_tensor", bucket.own, {count_});
      }
      for (std::size_t index = first; index < last; ++index) {
        Bucket& bucket = buckets[index];
        bucket.empty_into_parts(done(bucket.exchanged));
        bucket = {};
      }
    }
  });
}

}  // namespace cogwheel::distributed
