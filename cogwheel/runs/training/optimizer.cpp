#include "cogwheel/runs/training/optimizer.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/training/divided_moments.h"
#include "cogwheel/runs/training/divided_weights.h"
#include "cogwheel/runs/training/muon.h"

namespace cogwheel::runs {

Optimizer::Optimizer(const std::vector<std::pair<std::string, at::Tensor>>& parameters, const TrainingOptions& options,
                     const std::set<std::string>& hidden, const std::map<std::string, std::int64_t>& first_steps,
                     const WidthScaling& scaling, const DividedWeights* divided, DividedMoments* moments)
    : options_(options), divided_(divided), moments_(moments) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, value] : parameters) {
    const bool by_muon = options.optimizer == "muon" && hidden.contains(name);
    const auto later = first_steps.find(name);
    const auto moment = [this, &value = value] { return at::zeros_like(updated(value)); };
    parameters_.push_back(
        {name, value, moment(), by_muon ? at::Tensor() : moment(), later == first_steps.end() ? 0 : later->second});
    // Decay pulls matrices toward 0; gains and biases have no reason to be small.
    if (by_muon) {
      matrices_.push_back(parameters_.size() - 1);
      continue;
    }
    const std::size_t index = parameters_.size() - 1;
    const std::int64_t first_step = parameters_.back().first_step;
    const double decay = value.dim() >= 2 ? options.weight_decay : 0.0;
    if (const auto scaled = scaling.find(name); scaled != scaling.end())
      for (const ScaledRows& rows : scaled->second)  // the kernel multiplies the decay by the rate
        add_rows(group_of(decay / rows.rate, first_step, rows.rate), index, rows.first, rows.count);
    else
      add_to(group_of(decay, first_step, 1), index, 0, 0);
  }
  if (moments_ != nullptr) own_gradients_.resize(parameters_.size());
}

at::Tensor Optimizer::updated(const at::Tensor& parameter) const {
  return moments_ == nullptr ? parameter : moments_->own(parameter);
}

Optimizer::Group& Optimizer::group_of(double weight_decay, std::int64_t first_step, double rate) {
  for (Group& group : groups_)
    if (group.weight_decay == weight_decay && group.first_step == first_step && group.rate == rate) return group;
  return groups_.emplace_back(Group{{}, {}, {}, {}, {}, weight_decay, first_step, rate});
}

void Optimizer::add_to(Group& group, std::size_t index, std::int64_t first, std::int64_t count) {
  const Parameter& parameter = parameters_[index];
  const Rows& rows = group.rows.emplace_back(Rows{index, is_divided(parameter), first, count});
  group.values.push_back(rows.of(updated(parameter.value)));
  group.first_moments.push_back(rows.of(parameter.first_moment));
  group.second_moments.push_back(rows.of(parameter.second_moment));
  group.steps.push_back(at::full({}, 0, parameter.value.options().dtype(at::kFloat)));
}

void Optimizer::add_rows(Group& group, std::size_t index, std::int64_t first, std::int64_t count) {
  if (moments_ == nullptr) return add_to(group, index, first, count);
  const at::Tensor& value = parameters_[index].value;
  const std::int64_t numbers = value.numel(), row = numbers / value.size(0), own = moments_->first(numbers);
  // The kernel rounds the last numbers of a tensor otherwise, where they do not fill a register of the processor.
  constexpr std::int64_t widest_register = 16;
  if (first * row % widest_register != 0)
    throw UsageError(expected_got("parallel.divide_moments",
                                  "false, where training.base_width gives rates of their own to rows of " +
                                      parameters_[index].name + " from number " + std::to_string(first * row) +
                                      " on, no multiple of " + std::to_string(widest_register),
                                  "true"));
  const std::int64_t begin = std::max<std::int64_t>(0, first * row - own),
                     end = std::min((first + count) * row - own, moments_->size(numbers));
  if (begin < end) add_to(group, index, begin, end - begin);
}

std::vector<at::Tensor> Optimizer::values() const {
  std::vector<at::Tensor> values;
  for (const Parameter& each : parameters_) values.push_back(each.value);
  return values;
}

std::vector<std::size_t> Optimizer::learning() const {
  std::vector<std::size_t> indices;
  for (std::size_t index = 0; index < parameters_.size(); ++index)
    if (learns(parameters_[index].first_step)) indices.push_back(index);
  return indices;
}

at::Tensor Optimizer::gradient(std::size_t index) {
  const torch::NoGradGuard no_grad;
  at::Tensor& value = parameters_[index].value;
  at::Tensor& gradient = value.mutable_grad();
  gradient = gradient.defined() ? gradient.contiguous() : at::full_like(value, -0.0);  // x + (-0) is x, 0 too
  return gradient;
}

void Optimizer::take_own_gradients(std::vector<at::Tensor> of_learning) {
  zero_gradients();
  std::size_t next = 0;
  for (const std::size_t index : learning()) own_gradients_[index] = std::move(of_learning[next++]);
}

at::Tensor Optimizer::gradient_of_updated(std::size_t index) const {
  return moments_ == nullptr ? parameters_[index].value.grad() : own_gradients_[index];
}

bool Optimizer::is_divided(const Parameter& parameter) const {
  return divided_ != nullptr && divided_->contains(parameter.name);
}

double Optimizer::squares_of_all(double of_whole, double of_shares) const {
  return of_whole + (divided_ != nullptr ? divided_->sum(of_shares, "squares of all shares") : of_shares);
}

double Optimizer::squares_of_stretches(const std::vector<at::Tensor>& own, const std::string& what) {
  std::vector<std::int64_t> numbers;
  for (const std::size_t index : learning()) numbers.push_back(parameters_[index].value.numel());
  return moments_->sum_of_squares(own, numbers, what);
}

double Optimizer::clip_gradients() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> of_whole, of_shares;
  for (const std::size_t index : learning())
    (is_divided(parameters_[index]) ? of_shares : of_whole).push_back(gradient_of_updated(index));
  const auto norm_of = [](const std::vector<at::Tensor>& gradients) {
    return gradients.empty() ? 0.0 : at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients))).item<double>();
  };
  double norm = 0;
  if (moments_ != nullptr) {
    norm = std::sqrt(squares_of_stretches(of_whole, "squares of the gradient"));
  } else {
    norm = norm_of(of_whole);
    if (divided_ != nullptr && !divided_->empty())
      norm = std::sqrt(squares_of_all(norm * norm, std::pow(norm_of(of_shares), 2)));
  }
  // As in torch.nn.utils.clip_grad_norm_: the small term keeps the division finite.
  if (options_.clip > 0 && std::isfinite(norm) && norm > options_.clip)
    for (const std::vector<at::Tensor>* const gradients : {&of_whole, &of_shares})
      if (!gradients->empty()) at::_foreach_mul_(*gradients, options_.clip / (norm + 1e-6));
  return norm;
}

void Optimizer::update(Group& group, double learning_rate) {
  if (group.rows.empty()) return;  // all of its rows are in stretches of other ranks
  std::vector<at::Tensor> gradients;
  for (const Rows& rows : group.rows) gradients.push_back(rows.of(gradient_of_updated(rows.parameter)));
  for (auto& step : group.steps) step.fill_(steps_done_ + 1 - group.first_step);
  at::_fused_adamw_(group.values, gradients, group.first_moments, group.second_moments, {}, group.steps,
                    group.rate * learning_rate, options_.beta1, options_.beta2, group.weight_decay, options_.epsilon,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
}

void Optimizer::update_matrix(Parameter& matrix, double learning_rate) {
  at::Tensor direction = muon_direction(matrix.value, matrix.first_moment, options_);
  // Of a share, each rank computes the whole update and keeps its own.
  if (is_divided(matrix)) direction = divided_->whole(matrix.name, direction, "a step of Muon");
  at::Tensor update = orthogonalized(direction);
  if (is_divided(matrix)) update = divided_->share(matrix.name, update);
  muon_update(matrix.value, update, std::max(direction.size(0), direction.size(1)), learning_rate, options_);
}

void Optimizer::update_all(double learning_rate) {
  for (auto& group : groups_)
    if (learns(group.first_step)) update(group, learning_rate);
  for (const std::size_t index : matrices_)
    if (learns(parameters_[index].first_step)) update_matrix(parameters_[index], learning_rate);
}

void Optimizer::send_weights() {
  if (moments_ == nullptr) return;
  std::vector<at::Tensor> weights;
  for (const std::size_t index : learning()) weights.push_back(parameters_[index].value);
  moments_->send_to_all(std::move(weights), "weights of step " + std::to_string(steps_done_ + 1));
}

void Optimizer::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  update_all(learning_rate);
  send_weights();
  ++steps_done_;
}

// What is there twice is this rank's stretch alone.
double Optimizer::measured_stretches_step(double learning_rate) {
  std::vector<at::Tensor> weights, changes;
  for (const std::size_t index : learning()) {
    weights.push_back(updated(parameters_[index].value));
    changes.push_back(weights.back().clone());
  }
  const double of_weights = squares_of_stretches(weights, "squares of the weights");
  update_all(learning_rate);
  for (std::size_t place = 0; place < weights.size(); ++place) changes[place].sub_(weights[place]);
  const double of_updates = squares_of_stretches(changes, "squares of the update");
  send_weights();
  ++steps_done_;
  return of_weights > 0 ? std::sqrt(of_updates / of_weights) : 0;
}

double Optimizer::measured_step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  if (moments_ != nullptr) return measured_stretches_step(learning_rate);
  // Sums of squares, of what is whole here and of shares.
  std::array<double, 2> of_updates{}, of_weights{};
  // One tensor after the other, so that only one is there twice.
  const auto measured = [&](const at::Tensor& value, bool is_share, auto&& change) {
    const at::Tensor before = value.clone();
    change();
    const auto squared = [](const at::Tensor& tensor) {
      return std::pow(at::linalg_vector_norm(tensor).template item<double>(), 2);
    };
    of_weights.at(is_share ? 1 : 0) += squared(before);
    of_updates.at(is_share ? 1 : 0) += squared(value - before);
  };
  for (Group& group : groups_) {
    if (!learns(group.first_step)) continue;
    for (std::size_t index = 0; index < group.values.size(); ++index) {
      Group one{{group.rows[index]},
                {group.values[index]},
                {group.first_moments[index]},
                {group.second_moments[index]},
                {group.steps[index]},
                group.weight_decay,
                group.first_step,
                group.rate};
      measured(one.values[0], group.rows[index].is_share, [&] { update(one, learning_rate); });
    }
  }
  for (const std::size_t index : matrices_) {
    Parameter& matrix = parameters_[index];
    if (!learns(matrix.first_step)) continue;
    measured(matrix.value, is_divided(matrix), [&] { update_matrix(matrix, learning_rate); });
  }
  ++steps_done_;
  const double updates = squares_of_all(of_updates[0], of_updates[1]),
               weights = squares_of_all(of_weights[0], of_weights[1]);
  return weights > 0 ? std::sqrt(updates / weights) : 0;
}

void Optimizer::zero_moments() {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : parameters_) {
    parameter.first_moment.zero_();
    if (parameter.second_moment.defined()) parameter.second_moment.zero_();
  }
}

void Optimizer::zero_gradients() {
  for (auto& parameter : parameters_) parameter.value.mutable_grad().reset();
  for (at::Tensor& gradient : own_gradients_) gradient.reset();
}

}  // namespace cogwheel::runs
