// The fused optimiser against libtorch's plain one, and Muon against its definition.
#include "cogwheel/runs/training/optimizer.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

namespace cogwheel::runs::optimizer_test {
namespace {

constexpr TrainingOptions options{.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .clip = 1.0};

std::vector<std::pair<std::string, at::Tensor>> make_parameters() {
  torch::manual_seed(2);
  return {{"matrix", torch::randn({9, 5}).requires_grad_()},
          {"gain", torch::randn({7}).requires_grad_()},
          {"stack", torch::randn({2, 3, 4}).requires_grad_()}};
}

void set_gradients(const std::vector<std::pair<std::string, at::Tensor>>& parameters, std::uint64_t seed, double size) {
  torch::manual_seed(seed);
  for (const auto& [name, value] : parameters) value.mutable_grad() = size * torch::randn(value.sizes());
}

TEST(Optimizer, StepsAsTheUnfusedOne) {
  const auto fused = make_parameters(), plain = make_parameters();
  Optimizer optimizer(fused, options);
  const auto group = [&](std::vector<at::Tensor> values, double weight_decay) {
    return torch::optim::OptimizerParamGroup(
        std::move(values), std::make_unique<torch::optim::AdamWOptions>(
                               torch::optim::AdamWOptions(1).betas({0.9, 0.99}).eps(1e-8).weight_decay(weight_decay)));
  };
  torch::optim::AdamW reference({group({plain[0].second, plain[2].second}, 0.1), group({plain[1].second}, 0.0)});
  for (std::uint64_t step = 0; step < 20; ++step) {
    const double rate = 1e-2 / static_cast<double>(step + 1);
    set_gradients(fused, step, 0.1);
    set_gradients(plain, step, 0.1);
    optimizer.step(rate);
    for (auto& parameters : reference.param_groups()) parameters.options().set_lr(rate);
    reference.step();
  }
  EXPECT_EQ(optimizer.steps_done(), 20);
  for (std::size_t index = 0; index < fused.size(); ++index)
    EXPECT_TRUE(at::allclose(fused[index].second, plain[index].second, 1e-5, 1e-7)) << fused[index].first;
}

TEST(Optimizer, DecaysMatricesOnly) {
  const auto parameters = make_parameters();
  std::vector<at::Tensor> before;
  for (const auto& [name, value] : parameters) {
    before.push_back(value.detach().clone());
    value.mutable_grad() = torch::zeros_like(value);
  }
  Optimizer optimizer(parameters, options);
  optimizer.step(0.5);
  EXPECT_TRUE(at::allclose(parameters[0].second, 0.95 * before[0]));
  EXPECT_TRUE(parameters[1].second.equal(before[1]));
  EXPECT_TRUE(at::allclose(parameters[2].second, 0.95 * before[2]));
}

TEST(Optimizer, ClipsByTheGlobalNorm) {
  const auto clipped = make_parameters(), reference = make_parameters();
  set_gradients(clipped, 1, 3);
  set_gradients(reference, 1, 3);
  std::vector<at::Tensor> tensors;
  for (const auto& [name, value] : reference) tensors.push_back(value);
  Optimizer optimizer(clipped, options);
  EXPECT_NEAR(optimizer.clip_gradients(), torch::nn::utils::clip_grad_norm_(tensors, 1.0), 1e-4);
  for (std::size_t index = 0; index < clipped.size(); ++index)
    EXPECT_TRUE(at::allclose(clipped[index].second.grad(), tensors[index].grad(), 1e-5, 1e-7));
  EXPECT_NEAR(optimizer.clip_gradients(), 1.0, 1e-5);
  optimizer.zero_gradients();
  EXPECT_FALSE(clipped[0].second.grad().defined());
}

TEST(Optimizer, LeavesSmallGradientsAlone) {
  const auto parameters = make_parameters();
  set_gradients(parameters, 1, 1e-3);
  const at::Tensor before = parameters[0].second.grad().clone();
  Optimizer optimizer(parameters, options);
  optimizer.clip_gradients();
  EXPECT_TRUE(parameters[0].second.grad().equal(before));
}

// A matrix whose singular values are all 1 up to the published steps' error, times the factor, is what is subtracted.
TEST(Optimizer, OfHiddenMatricesIsMuon) {
  TrainingOptions muon = options;
  muon.optimizer = "muon", muon.weight_decay = 0, muon.momentum = 0.9;
  const auto parameters = make_parameters();
  const at::Tensor before = parameters[0].second.detach().clone(), gain = parameters[1].second.detach().clone();
  Optimizer optimizer(parameters, muon, {"matrix"});
  EXPECT_FALSE(optimizer.parameters()[0].second_moment.defined());
  EXPECT_TRUE(optimizer.parameters()[1].second_moment.defined());
  set_gradients(parameters, 3, 0.1);
  const double ratio = optimizer.measured_step(0.01);
  const at::Tensor update = (before - parameters[0].second.detach()) / (0.01 * 0.2 * 3),
                   gradient = parameters[0].second.grad();
  const auto [u, s, v] = at::linalg_svd(gradient, false);
  EXPECT_LT((at::linalg_svdvals(update) - 1).abs().max().item<double>(), 0.4);
  // Along the same singular vectors.
  const at::Tensor turned = u.t().mm(update).mm(v.t());
  EXPECT_LT((turned - at::diag(turned.diag())).abs().max().item<double>(), 0.1);
  EXPECT_FALSE(gain.equal(parameters[1].second));
  EXPECT_GT(ratio, 0);
}

// The update measured is the one that is made.
TEST(Optimizer, MeasuresWhatItDoes) {
  const auto measured = make_parameters(), plain = make_parameters();
  Optimizer one(measured, options), other(plain, options);
  double updates = 0, weights = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    set_gradients(measured, step, 0.1);
    set_gradients(plain, step, 0.1);
    std::vector<at::Tensor> before;
    for (const auto& [name, value] : plain) before.push_back(value.detach().clone());
    other.step(1e-2);
    updates = weights = 0;
    for (std::size_t index = 0; index < before.size(); ++index) {
      updates += (plain[index].second.detach() - before[index]).square().sum().item<double>();
      weights += before[index].square().sum().item<double>();
    }
    EXPECT_NEAR(one.measured_step(1e-2), std::sqrt(updates / weights), 1e-6);
  }
  for (std::size_t index = 0; index < plain.size(); ++index)
    EXPECT_TRUE(measured[index].second.equal(plain[index].second));
}

}  // namespace
}  // namespace cogwheel::runs::optimizer_test
