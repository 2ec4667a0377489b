#include "cogwheel/nn/blocks/feed_forward.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace cogwheel::nn {
namespace {

FeedForward make(Activation activation, bool bias) {
  FeedForward network(FeedForwardOptions{.width = 12, .hidden = 20, .activation = activation, .bias = bias});
  network->initialize(WeightInitializer(5), "feed_forward", 0.5, 0.5);
  network->to(at::kDouble);
  return network;
}

TEST(FeedForward, SwigluGatesOneHalfWithTheOther) {
  FeedForward network = make(Activation::swiglu, false);
  const at::Tensor x = torch::randn({3, 12}, at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
  const auto weights = network->named_parameters();
  const at::Tensor gate = x.matmul(weights["up.weight"].slice(0, 0, 20).t()),
                   up = x.matmul(weights["up.weight"].slice(0, 20, 40).t());
  const at::Tensor expected = (gate / (1 + (-gate).exp()) * up).matmul(weights["out.weight"].t());
  EXPECT_TRUE(at::allclose(network(x), expected, 1e-11, 1e-12));
}

}  // namespace
}  // namespace cogwheel::nn
