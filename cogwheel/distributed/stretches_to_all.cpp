#include "cogwheel/distributed/stretches_to_all.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

#include <numeric>
#include <utility>

#include "cogwheel/core/process/wall_clock.h"

namespace cogwheel::distributed {
namespace {

constexpr std::size_t buckets_ahead = 2;

}  // namespace

StretchesToAll::StretchesToAll(const Group& ranks, std::vector<at::Tensor> tensors, std::int64_t unit, std::string what)
    : group_(ranks), owners_(ranks.count(), unit), what_(std::move(what)), exchanges_until_(tensors.size(), 0) {
  if (ranks.count() == 1) return;
  std::vector<std::int64_t> numbers;
  for (const at::Tensor& each : tensors) {
    flat_.push_back(each.detach().view(-1));
    numbers.push_back(each.numel());
  }
  std::vector<std::size_t> first_to_last(tensors.size());
  std::iota(first_to_last.begin(), first_to_last.end(), 0);
  const std::vector<std::vector<ExchangePlan>> buckets = planned_buckets(first_to_last, numbers, owners_);
  for (const std::vector<ExchangePlan>& bucket : buckets) plans_.insert(plans_.end(), bucket.begin(), bucket.end());
  under_way_.resize(plans_.size());
  for (std::size_t number = 0; number < plans_.size(); ++number)
    for (const ExchangePiece& piece : plans_[number].pieces) exchanges_until_[piece.tensor] = number + 1;
  const std::size_t ahead = buckets.empty() ? 0 : buckets_ahead * buckets.front().size();
  for (std::size_t number = 0; number < ahead; ++number) begin_next();
}

void StretchesToAll::begin_next() {
  if (begun_ == plans_.size()) return;
  const at::NoGradGuard no_gradient;
  const ExchangePlan& plan = plans_[begun_];
  at::Tensor own = at::zeros({plan.length}, flat_.front().options());
  for (const ExchangePiece& piece : plan.pieces) {
    const at::Tensor& flat = flat_[piece.tensor];
    const std::int64_t size = owned_of_piece(piece, flat.numel(), group_.rank(), owners_);
    if (size > 0)
      own.narrow(0, piece.column, size).copy_(owners_.own(flat, group_.rank()).narrow(0, piece.of_stretch, size));
  }
  under_way_[begun_++] = group_.gather(own, what_);
}

void StretchesToAll::take_next() {
  const at::NoGradGuard no_gradient;
  const auto start = WallClock::now();
  const at::Tensor all = under_way_[taken_].result(what_);
  waited_ += seconds_since(start);
  for (const ExchangePiece& piece : plans_[taken_].pieces) take_piece(flat_[piece.tensor], piece, all, owners_);
  under_way_[taken_++] = {};
  begin_next();
}

void StretchesToAll::wait_for(std::size_t tensor) {
  while (taken_ < exchanges_until_[tensor]) take_next();
}

void StretchesToAll::wait_for_all() {
  while (taken_ < plans_.size()) take_next();
}

}  // namespace cogwheel::distributed
