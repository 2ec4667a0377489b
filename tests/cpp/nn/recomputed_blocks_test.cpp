// Blocks whose activations are made again give the bits of those that keep them.
#include "cogwheel/nn/blocks/recomputed_blocks.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/weights/matrix_product.h"

namespace cogwheel::nn::recomputed_blocks_test {
namespace {

constexpr std::int64_t width = 32;

std::vector<TransformerBlock> make_blocks(const std::string& mechanism) {
  std::vector<TransformerBlock> blocks;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    TransformerBlockOptions options;
    options.attention = {.width = width, .heads = 4, .mechanism = mechanism};
    if (mechanism == "mamba2") {
      options.attention.mechanism = "softmax";
      options.recurrent = RecurrentLayerOptions{.width = width, .heads = 4, .mechanism = mechanism};
    }
    options.feed_forward = {.width = width, .hidden = 64};
    blocks.emplace_back(options);
    blocks.back()->initialize(WeightInitializer(layer + 1), "block", 0.3, 0.3);
  }
  return blocks;
}

// The output, then every gradient.
std::vector<at::Tensor> pass(std::vector<TransformerBlock>& blocks, std::int64_t every, bool narrow) {
  torch::manual_seed(4);
  const at::Tensor x = at::randn({2, 9, width}).requires_grad_(true), outer = at::randn({2, 9, width});
  for (TransformerBlock& block : blocks) block->zero_grad();
  ForwardContext context;
  context.dropout = Dropout{0.2, 11};
  ResidualStream stream{x};
  at::Tensor loss;
  {
    const BFloat16Products products(narrow);
    const RecomputedBlocks recomputed(every);
    for (std::size_t layer = 0; layer < blocks.size(); ++layer) stream = blocks[layer](stream, context.at_layer(layer));
    loss = (stream.total() * outer).sum();
  }
  std::vector<at::Tensor> all{stream.total().detach()};
  loss.backward();
  all.push_back(x.grad());
  for (TransformerBlock& block : blocks)
    for (const at::Tensor& parameter : block->parameters())
      if (parameter.grad().defined()) all.push_back(parameter.grad().clone());
  return all;
}

TEST(RecomputedBlocks, GiveTheSameBits) {
  for (const char* mechanism : {"softmax", "cog", "differential", "mamba2"})
    for (const bool narrow : {false, true}) {
      std::vector<TransformerBlock> blocks = make_blocks(mechanism);
      const std::vector<at::Tensor> kept = pass(blocks, 0, narrow);
      for (const std::int64_t every : {1, 2}) {
        const std::vector<at::Tensor> again = pass(blocks, every, narrow);
        ASSERT_EQ(again.size(), kept.size());
        for (std::size_t index = 0; index < kept.size(); ++index)
          EXPECT_TRUE(again[index].equal(kept[index])) << mechanism << ", tensor " << index << ", every " << every;
      }
    }
}

TEST(RecomputedBlocks, AreOnlyThoseThatAreAskedForInTraining) {
  ForwardContext context;
  const RecomputedBlocks recomputed(2);
  EXPECT_FALSE(RecomputedBlocks::include(context.at_layer(0)));
  EXPECT_TRUE(RecomputedBlocks::include(context.at_layer(1)));
  EXPECT_TRUE(RecomputedBlocks::include(context.at_layer(3)));
  {
    const RecomputedBlocks none(0);
    EXPECT_FALSE(RecomputedBlocks::include(context.at_layer(1)));
  }
  Hooks hooks;
  context.hooks = &hooks;
  EXPECT_FALSE(RecomputedBlocks::include(context.at_layer(1)));
  context.hooks = nullptr;
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(RecomputedBlocks::include(context.at_layer(1)));
}

}  // namespace
}  // namespace cogwheel::nn::recomputed_blocks_test
