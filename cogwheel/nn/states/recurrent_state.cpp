#include "cogwheel/nn/states/recurrent_state.h"

#include <torch/types.h>

#include <limits>
#include <string>
#include <utility>

#include "cogwheel/ops/cache/cache_checks.h"

namespace cogwheel::nn {
namespace {

// The same with every tensor that there is replaced.
template <class Function>
Carried of_each(const Carried& given, Function&& function) {
  Carried result;
  for (const at::Tensor& tensor : given.law) result.law.push_back(function(tensor));
  if (given.inputs.defined()) result.inputs = function(given.inputs);
  if (given.last.defined()) result.last = function(given.last);
  if (given.total.defined()) result.total = function(given.total);
  return result;
}

}  // namespace

RecurrentState::RecurrentState(std::int64_t batch) : present_{at::zeros({batch}, at::kLong), {}}, before_(present_) {}

void RecurrentState::advance(Carried carried, std::int64_t tokens) {
  before_ = std::exchange(
      present_, {present_.lengths + tokens, of_each(carried, [](const at::Tensor& kept) { return kept.detach(); })});
}

std::int64_t RecurrentState::longest() const {
  return present_.lengths.numel() == 0 ? 0 : present_.lengths.max().item<std::int64_t>();
}

void RecurrentState::check_crop(const at::Tensor& kept) const {
  const at::Tensor wanted = ops::checked_integers("crop", kept, present_.lengths.numel());
  if (wanted.equal(before_.lengths)) return;
  for (std::int64_t b = 0; b < wanted.numel(); ++b)
    if (const std::int64_t length = ops::numbers(wanted)[b], all = ops::numbers(present_.lengths)[b];
        length != 0 && length != all)
      ops::refuse_cache("crop" + ops::of_entry(b), "0 or " + std::to_string(all) + " (a state forgets no token)",
                        std::to_string(length));
}

void RecurrentState::crop(const at::Tensor& kept) {
  check_crop(kept);
  if (kept.equal(present_.lengths)) return;
  if (kept.equal(before_.lengths)) {
    present_ = before_;
    return;
  }
  const at::Tensor emptied = kept.eq(0).nonzero().flatten();
  present_ = {kept.clone(), of_each(present_.carried, [&](const at::Tensor& tensor) {
                return tensor.index_fill(0, emptied.to(tensor.device()), 0);
              })};
  if (at::Tensor& total = present_.carried.total; total.defined())  // the log of nothing
    total.index_fill_(0, emptied.to(total.device()), -std::numeric_limits<double>::infinity());
  before_ = present_;
}

void RecurrentState::forget(std::int64_t first, std::int64_t count) {
  ops::check_forgotten(present_.lengths, first, count);
  present_.lengths = present_.lengths - count;
  before_ = present_;
}

std::unique_ptr<LayerState> RecurrentState::fork(const at::Tensor& entries) const {
  const at::Tensor chosen = ops::checked_entries(entries, present_.lengths.size(0));
  auto copy = std::make_unique<RecurrentState>(chosen.numel());
  copy->present_ = {present_.lengths.index_select(0, chosen), of_each(present_.carried, [&](const at::Tensor& tensor) {
                      return tensor.index_select(0, chosen.to(tensor.device()));
                    })};
  copy->before_ = copy->present_;
  return copy;
}

std::int64_t RecurrentState::bytes() const {
  std::int64_t sum = 0;
  of_each(present_.carried, [&](const at::Tensor& tensor) {
    sum += tensor.numel() * tensor.element_size();
    return tensor;
  });
  return sum;
}

}  // namespace cogwheel::nn
