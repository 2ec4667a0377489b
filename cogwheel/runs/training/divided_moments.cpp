#include "cogwheel/runs/training/divided_moments.h"

#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cogwheel/core/process/wall_clock.h"

namespace cogwheel::runs {
namespace {

// Products of float32 are exact in double; the lanes are for the compiler.
double squares_of(const float* numbers, std::int64_t count) {
  std::array<double, 8> lanes{};
  std::int64_t place = 0;
  for (; place + std::ssize(lanes) <= count; place += std::ssize(lanes))
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const double number = numbers[place + static_cast<std::int64_t>(lane)];
      lanes[lane] += number * number;
    }
  for (; place < count; ++place) lanes[0] += static_cast<double>(numbers[place]) * static_cast<double>(numbers[place]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Of each unit of a flat tensor.
void write_squares(const at::Tensor& numbers, double* squares) {
  constexpr std::int64_t unit = DividedMoments::unit;
  const std::int64_t count = numbers.numel(), units = (count + unit - 1) / unit;
  if (!numbers.is_cpu()) {
    // By halves: a reduction adds in an order that depends on the number of units.
    at::Tensor sums =
        at::constant_pad_nd(numbers, {0, units * unit - count}).view({units, unit}).to(at::kDouble).square();
    for (std::int64_t half = unit / 2; half > 0; half /= 2) sums = sums.narrow(1, 0, half) + sums.narrow(1, half, half);
    const at::Tensor here = sums.contiguous().cpu();
    std::copy_n(here.const_data_ptr<double>(), units, squares);
    return;
  }
  const auto* const first = numbers.const_data_ptr<float>();
  constexpr std::int64_t units_of_a_thread = 64;
  at::parallel_for(0, units, units_of_a_thread, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t each = from; each < to; ++each)
      squares[each] = squares_of(first + each * unit, std::min(unit, count - each * unit));
  });
}

}  // namespace

DividedMoments::DividedMoments(const distributed::Ranks& ranks, const std::vector<at::Tensor>& in_blocks)
    : ranks_(ranks), owners_(ranks.count(), unit) {
  for (const at::Tensor& each : in_blocks) in_blocks_.emplace(each.unsafeGetTensorImpl(), in_blocks_.size() + 1);
}

at::Tensor DividedMoments::whole(const at::Tensor& own, at::IntArrayRef sizes, const std::string& what) const {
  if (ranks_.count() == 1) return own.view(sizes);
  const std::int64_t numbers = c10::multiply_integers(sizes);
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks_.count()), 0), received = sent;
  sent.front() = own.numel();
  for (std::int64_t rank = 0; ranks_.is_first() && rank < ranks_.count(); ++rank)
    received[static_cast<std::size_t>(rank)] = owners_.size(numbers, rank);
  const at::Tensor all = ranks_.all().exchange(own, sent, received, what).result(what);
  return ranks_.is_first() ? all.view(sizes) : at::Tensor();
}

std::int64_t DividedMoments::units_of(std::int64_t numbers, std::int64_t rank) const {
  return (owners_.size(numbers, rank) + unit - 1) / unit;
}

double DividedMoments::sum_of_squares(const std::vector<at::Tensor>& own, const std::vector<std::int64_t>& numbers,
                                      const std::string& what) {
  std::int64_t most_units = 0;
  for (const std::int64_t each : numbers) most_units += owners_.stretch(each) / unit;
  const at::Tensor of_this_rank = at::zeros({most_units}, at::kDouble);
  auto* next = of_this_rank.mutable_data_ptr<double>();
  for (std::size_t index = 0; index < own.size(); ++index) {
    write_squares(own[index], next);
    next += units_of(numbers[index], ranks_.rank());
  }
  const auto start = WallClock::now();
  const at::Tensor all = ranks_.all().gather(of_this_rank, what).result(what);
  if (ranks_.count() > 1) waited_ += seconds_since(start);
  std::vector<const double*> of_ranks;
  for (std::int64_t rank = 0; rank < ranks_.count(); ++rank)
    of_ranks.push_back(all.const_data_ptr<double>() + rank * most_units);
  double sum = 0;
  for (const std::int64_t each : numbers)
    for (std::int64_t rank = 0; rank < ranks_.count(); ++rank)
      for (std::int64_t units = units_of(each, rank); units > 0; --units)
        sum += *of_ranks[static_cast<std::size_t>(rank)]++;
  return sum;
}

void DividedMoments::send_to_all(std::vector<at::Tensor> weights, const std::string& what) {
  if (ranks_.count() == 1) return;
  const auto place_of = [this](const at::Tensor& weight) {
    const auto found = in_blocks_.find(weight.unsafeGetTensorImpl());
    return found == in_blocks_.end() ? 0 : found->second;
  };
  std::stable_sort(weights.begin(), weights.end(),
                   [&](const at::Tensor& one, const at::Tensor& other) { return place_of(one) < place_of(other); });
  places_.clear();
  outside_blocks_ = 0;
  for (const at::Tensor& each : weights) {
    places_.emplace(each.unsafeGetTensorImpl(), places_.size());
    if (place_of(each) == 0) ++outside_blocks_;
  }
  coming_ = std::make_unique<distributed::StretchesToAll>(ranks_.all(), std::move(weights), unit, what);
}

void DividedMoments::wait_for_rest_of_model() {
  if (coming_ && outside_blocks_ > 0) coming_->wait_for(outside_blocks_ - 1);
}

void DividedMoments::wait_for(const torch::nn::Module& block) {
  if (!coming_) return;
  for (const at::Tensor& parameter : block.parameters())
    if (const auto found = places_.find(parameter.unsafeGetTensorImpl()); found != places_.end())
      coming_->wait_for(found->second);
}

void DividedMoments::wait_for_all() {
  if (!coming_) return;
  coming_->wait_for_all();
  waited_ += coming_->waited();
  coming_.reset();
}

}  // namespace cogwheel::runs
