#include "cogwheel/runs/training/divided_moments.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/training_options.h"
#include "cogwheel/runs/training/optimizer.h"

namespace cogwheel::runs::divided_moments_test {
namespace {

using distributed::one_rank;

TEST(DividedMoments, AddSquaresOfAllNumbers) {
  torch::manual_seed(5);
  DividedMoments moments(one_rank);
  std::vector<at::Tensor> own;
  std::vector<std::int64_t> numbers;
  double expected = 0;
  for (const std::int64_t size : {1, 7, 4096, 4097, 300'000}) {
    own.push_back(torch::randn(size));
    numbers.push_back(size);
    expected += own.back().to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(moments.sum_of_squares(own, numbers, "squares"), expected, 1e-11 * expected);
  own.back()[1234] = NAN;
  EXPECT_TRUE(std::isnan(moments.sum_of_squares(own, numbers, "squares")));
  own.back()[1234] = -INFINITY;
  EXPECT_TRUE(std::isinf(moments.sum_of_squares(own, numbers, "squares")));
}

std::vector<std::pair<std::string, at::Tensor>> make_parameters() {
  torch::manual_seed(2);
  return {{"matrix", torch::randn({96, 64}).requires_grad_()}, {"gain", torch::randn({7}).requires_grad_()}};
}

// One rank that has all stretches learns what it learns without.
TEST(DividedMoments, OfOneRankAreThoseOfWholeTensors) {
  const TrainingOptions options{.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .clip = 0};
  // Queries at one rate, the rest at another.
  const WidthScaling scaling{{"matrix", {{0, 32, 1, 0.5}, {32, 64, 1, 2}}}};
  const auto divided = make_parameters(), whole = make_parameters();
  DividedMoments moments(one_rank);
  Optimizer of_divided(divided, options, {}, {}, scaling, nullptr, &moments), of_whole(whole, options, {}, {}, scaling);
  for (int step = 0; step < 10; ++step) {
    std::vector<at::Tensor> own;
    for (std::size_t index = 0; index < whole.size(); ++index) {
      whole[index].second.mutable_grad() = torch::randn(whole[index].second.sizes());
      own.push_back(whole[index].second.grad().clone().view(-1));
    }
    of_divided.take_own_gradients(own);
    EXPECT_NEAR(of_divided.clip_gradients(), of_whole.clip_gradients(), 1e-4);
    if (step % 3 == 0) {
      EXPECT_NEAR(of_divided.measured_step(1e-2), of_whole.measured_step(1e-2), 1e-6);
    } else {
      of_divided.step(1e-2);
      of_whole.step(1e-2);
    }
  }
  EXPECT_EQ(of_divided.steps_done(), 10);
  for (std::size_t index = 0; index < whole.size(); ++index) {
    EXPECT_TRUE(at::equal(divided[index].second, whole[index].second)) << whole[index].first;
    EXPECT_TRUE(at::equal(of_divided.parameters()[index].second_moment.view(whole[index].second.sizes()),
                          of_whole.parameters()[index].second_moment));
  }
}

TEST(DividedMoments, RefuseRatesOfRowsThatBeginWithinARegister) {
  const WidthScaling scaling{{"matrix", {{0, 1, 1, 0.5}, {1, 95, 1, 2}}}};
  std::vector<std::pair<std::string, at::Tensor>> odd{{"matrix", torch::randn({96, 7}).requires_grad_()}};
  DividedMoments moments(one_rank);
  try {
    const Optimizer refused(odd, {}, {}, {}, scaling, nullptr, &moments);
    FAIL() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "parallel.divide_moments: expected false, where training.base_width gives rates of their own to rows of "
              "matrix from number 7 on, no multiple of 16, got true");
  }
}

}  // namespace
}  // namespace cogwheel::runs::divided_moments_test
