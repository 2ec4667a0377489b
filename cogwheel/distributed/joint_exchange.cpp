#include "cogwheel/distributed/joint_exchange.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

namespace cogwheel::distributed {

bool travel_together(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& each : tensors) bytes += static_cast<std::int64_t>(each.nbytes());
  return travel_together(bytes) && std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& each) {
           return each.scalar_type() == tensors.front().scalar_type();
         });
}

template <class Begin>
JointExchange JointExchange::begun(const std::vector<at::Tensor>& tensors, std::int64_t rows, const Begin& begin) {
  JointExchange joint;
  if (tensors.size() < 2 || !travel_together(tensors)) {
    for (const at::Tensor& each : tensors) joint.exchanges_.push_back(begin(each));
    return joint;
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& each : tensors) {
    flat.push_back(each.reshape({rows, -1}));
    joint.sizes_.push_back(each.sizes().vec());
  }
  joint.exchanges_.push_back(begin(at::cat(flat, 1)));
  return joint;
}

JointExchange JointExchange::gather(const Group& group, const std::vector<at::Tensor>& own, const std::string& what) {
  JointExchange joint = begun(own, 1, [&](const at::Tensor& each) { return group.gather(each, what); });
  for (std::vector<std::int64_t>& sizes : joint.sizes_) sizes = with_ranks(group.count(), sizes);
  return joint;
}

JointExchange JointExchange::exchange(const Group& group, const std::vector<at::Tensor>& parts,
                                      const std::string& what) {
  return begun(parts, group.count(), [&](const at::Tensor& each) { return group.exchange(each, what); });
}

at::Tensor JointExchange::next(const std::string& what) {
  const std::size_t number = given_++;
  if (sizes_.empty()) return std::exchange(exchanges_[number], {}).result(what);
  const std::vector<std::int64_t>& sizes = sizes_[number];
  if (number == 0) together_ = exchanges_.front().result(what).view({sizes.front(), -1});
  std::int64_t numbers = 1;
  for (std::size_t dim = 1; dim < sizes.size(); ++dim) numbers *= sizes[dim];
  at::Tensor result = together_.narrow(1, std::exchange(first_, first_ + numbers), numbers).view(sizes);
  if (given_ == sizes_.size()) together_.reset();
  return result;
}

}  // namespace cogwheel::distributed
