#include "cogwheel/nn/dropout.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <set>

namespace cogwheel::nn {
namespace {

TEST(Dropout, KeepsTheShareAndTheMean) {
  const std::int64_t count = 400'001;  // the last draw serves one element
  for (const double rate : {0.1, 0.5, 0.9}) {
    const at::Tensor kept = Dropout(rate, 42)(at::ones({count}));
    const double standard_error = std::sqrt(rate * (1 - rate) / static_cast<double>(count));
    EXPECT_NEAR((kept == 0).to(at::kDouble).mean().item<double>(), rate, 5 * standard_error);
    EXPECT_NEAR(kept.mean().item<double>(), 1, 5 * standard_error / (1 - rate));
    EXPECT_TRUE(((kept == 0) | ((kept - 1 / (1 - rate)).abs() < 1e-5)).all().item<bool>());
  }
}

TEST(Dropout, DrawsOneElementWithoutItsNeighbours) {
  const at::Tensor dropped = (Dropout(0.5, 7)(at::ones({1 << 18})) == 0).to(at::kDouble) - 0.5;
  for (const std::int64_t distance : {1, 2, 3, 64, 128, 4096}) {
    const double correlation = 4 * (dropped.slice(0, distance) * dropped.slice(0, 0, -distance)).mean().item<double>();
    EXPECT_NEAR(correlation, 0, 5.0 / 512) << distance;
  }
}

TEST(Dropout, FollowsItsSeedAndItsPart) {
  const at::Tensor x = at::ones({64, 64});
  const Dropout dropout(0.5, 1);
  EXPECT_TRUE(dropout(x).equal(dropout(x)));
  EXPECT_TRUE(dropout.part(3)(x).equal(Dropout(0.5, derived_seed(1, 3))(x)));
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    for (std::uint64_t part = 0; part < 50; ++part) seeds.insert(derived_seed(seed, part));
  EXPECT_EQ(seeds.size(), 2500u);
  for (std::uint64_t part = 0; part < 3; ++part) {
    const double same =
        ((dropout.part(part)(x) == 0) == (dropout.part(part + 1)(x) == 0)).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(same, 0.5, 0.05);
  }
}

TEST(Dropout, DropsTheSameInTheBackwardPass) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::ones({31, 33}, type).requires_grad_();
    const at::Tensor kept = Dropout(0.3, 9)(x.t());
    kept.backward(at::ones_like(kept));
    EXPECT_TRUE(x.grad().equal(kept.t()));  // x is ones, so the output is the mask over 1 − rate
  }
}

TEST(Dropout, DropsTheSameInASecondDerivative) {
  const at::Tensor x = at::ones({9, 11}).requires_grad_(), upstream = at::ones({9, 11}).requires_grad_();
  const at::Tensor kept = Dropout(0.4, 21)(x);
  const auto first = torch::autograd::grad({kept}, {x}, {upstream}, true, /*create_graph=*/true);
  EXPECT_TRUE(torch::autograd::grad({first[0].sum()}, {upstream})[0].equal(kept));
}

TEST(Dropout, IsTheSameForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = Dropout(0.2, 3)(at::ones({100'000}));
  at::set_num_threads(5);
  EXPECT_TRUE(Dropout(0.2, 3)(at::ones({100'000})).equal(alone));
  at::set_num_threads(threads);
}

TEST(Dropout, NoneLeavesTheTensorAsItIs) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(Dropout()(x).is_same(x));
  EXPECT_TRUE(Dropout(0, 5).part(2)(x).is_same(x));
}

TEST(Dropout, DropsWhatIsNotFinite) {
  const at::Tensor kept = Dropout(0.5, 1)(at::full({1000}, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(kept.isnan().any().item<bool>());
  EXPECT_EQ(kept.min().item<double>(), 0);
}

}  // namespace
}  // namespace cogwheel::nn
