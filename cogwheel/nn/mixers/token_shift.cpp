#include "cogwheel/nn/mixers/token_shift.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::nn {
namespace {

// 32 in the paper, whose models are wide.
std::int64_t rank_of(std::int64_t width) { return std::clamp<std::int64_t>(width / 16, 1, 32); }

}  // namespace

TokenShiftImpl::TokenShiftImpl(std::int64_t width, std::int64_t readers, double depth) : depth_(depth) {
  shared_ = new_parameter(*this, "shared", {width});
  shares_ = new_parameter(*this, "shares", {readers, width});
  into_rank_ = new_parameter(*this, "into_rank", {readers, width, rank_of(width)});
  from_rank_ = new_parameter(*this, "from_rank", {readers, rank_of(width), width});
}

std::vector<at::Tensor> TokenShiftImpl::forward(const at::Tensor& given, const at::Tensor& last,
                                                const at::Tensor& places) {
  const at::Tensor x = given.to(shared_.scalar_type());
  const at::Tensor first = last.defined() ? last.to(x.scalar_type()) : at::zeros_like(x.narrow(1, 0, 1));
  at::Tensor earlier = at::cat({first, x.narrow(1, 0, x.size(1) - 1)}, 1);
  if (places.defined()) earlier = earlier.masked_fill((places == 0).unsqueeze(-1), 0);
  const at::Tensor change = earlier - x;
  const at::Tensor mixed = at::addcmul(x, change, shared_);
  std::vector<at::Tensor> readers;
  for (std::int64_t reader = 0; reader < shares_.size(0); ++reader) {
    const at::Tensor share = shares_[reader] + mixed.matmul(into_rank_[reader]).tanh().matmul(from_rank_[reader]);
    readers.push_back(at::addcmul(x, change, share).to(given.scalar_type()));
  }
  return readers;
}

void TokenShiftImpl::initialize(const WeightInitializer& initializer, const std::string& name) {
  const torch::NoGradGuard no_grad;
  // Between all of the token before, in the first channel of the first layer, and none of it.
  const std::int64_t width = shared_.size(0);
  const at::Tensor share =
      1 - (at::arange(width, at::kDouble) / static_cast<double>(width)).pow(1 - depth_).to(at::kFloat);
  shared_.copy_(share);
  shares_.copy_(share.expand_as(shares_));
  into_rank_.zero_();
  initializer.normal(from_rank_, name + ".from_rank", 0.01);
}

}  // namespace cogwheel::nn
