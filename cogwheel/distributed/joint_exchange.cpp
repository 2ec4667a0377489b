#include "cogwheel/distributed/joint_exchange.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

namespace cogwheel::distributed {
namespace {

bool share_one(const std::vector<at::Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& each : tensors) bytes += each.nbytes();
  const auto alike = [&](const at::Tensor& each) { return each.scalar_type() == tensors.front().scalar_type(); };
  return tensors.size() > 1 && travel_together(static_cast<std::int64_t>(bytes)) &&
         std::all_of(tensors.begin(), tensors.end(), alike);
}

std::vector<std::int64_t> of_each_rank(std::int64_t ranks, at::IntArrayRef own) {
  std::vector<std::int64_t> sizes{ranks};
  sizes.insert(sizes.end(), own.begin(), own.end());
  return sizes;
}

}  // namespace

JointExchange JointExchange::gather(const Group& group, const std::vector<at::Tensor>& own, const std::string& what) {
  JointExchange joint;
  if (!share_one(own)) {
    for (const at::Tensor& each : own) joint.exchanges_.push_back(group.gather(each, what));
    return joint;
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& each : own) {
    flat.push_back(each.reshape(-1));
    joint.sizes_.push_back(of_each_rank(group.count(), each.sizes()));
  }
  joint.exchanges_.push_back(group.gather(at::cat(flat), what));
  return joint;
}

JointExchange JointExchange::exchange(const Group& group, const std::vector<at::Tensor>& parts,
                                      const std::string& what) {
  JointExchange joint;
  if (!share_one(parts)) {
    for (const at::Tensor& each : parts) joint.exchanges_.push_back(group.exchange(each, what));
    return joint;
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& each : parts) {
    flat.push_back(each.reshape({group.count(), -1}));
    joint.sizes_.push_back(each.sizes().vec());
  }
  joint.exchanges_.push_back(group.exchange(at::cat(flat, 1), what));
  return joint;
}

at::Tensor JointExchange::next(const std::string& what) {
  const std::size_t number = given_++;
  if (sizes_.empty()) return std::exchange(exchanges_[number], {}).result(what);
  if (number == 0) {
    together_ = exchanges_.front().result(what);
    together_ = together_.view({sizes_.front().front(), -1});
  }
  const std::vector<std::int64_t>& sizes = sizes_[number];
  std::int64_t numbers = 1;
  for (std::size_t dim = 1; dim < sizes.size(); ++dim) numbers *= sizes[dim];
  at::Tensor result = together_.narrow(1, std::exchange(first_, first_ + numbers), numbers).view(sizes);
  if (given_ == sizes_.size()) together_.reset();
  return result;
}

}  // namespace cogwheel::distributed
