#include "cogwheel/distributed/ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cogwheel::distributed {
namespace {

at::Tensor bytes_of(const std::string& text, std::int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

Ranks::Ranks(std::string group, std::int64_t rank, std::int64_t count, MakeGroup make_group)
    : group_(std::move(group), rank, count, Group::Threads::one), make_group_(std::move(make_group)) {}

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

Group Ranks::of(std::int64_t size, std::int64_t stride) const {
  if (size == 1) return {};
  if (size == count()) return group_;
  return Group(make_group_(size, stride), rank() / stride % size, size, Group::Threads::one);
}

void Ranks::add(const std::vector<at::Tensor>& tensors, const std::string& what) const {
  std::vector<SumOverRanks::Summand> summands;
  for (const at::Tensor& tensor : tensors) summands.push_back({tensor.numel()});
  SumOverRanks sum({{&group_}}, summands, what, {});
  for (std::size_t index = tensors.size(); index-- > 0;) sum.ready(index, tensors[index]);
  sum.finish();
}

}  // namespace cogwheel::distributed
