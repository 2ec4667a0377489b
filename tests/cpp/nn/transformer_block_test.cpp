// The block against its formulas, with the layers that it contains as parts.
#include "cogwheel/nn/blocks/transformer_block.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "block_formula.h"
#include "hooked.h"

namespace cogwheel::nn::transformer_block_test {
namespace {

constexpr std::int64_t batch = 2, tokens = 6, width = 16, heads = 2;

TransformerBlockOptions options_of(NormPlace place, bool causal, bool memory) {
  const AttentionLayerOptions attention{
      .width = width, .heads = heads, .projection_bias = false, .output_bias = false, .causal = causal};
  TransformerBlockOptions options{.attention = attention,
                                  .feed_forward = {.width = width, .hidden = 24, .bias = true},
                                  .norm_place = place,
                                  .norm_bias = true};
  if (memory) options.memory_attention = AttentionLayerOptions{.width = width, .heads = heads};
  return options;
}

TransformerBlock make(NormPlace place, bool causal = true, bool memory = false) {
  TransformerBlock block(options_of(place, causal, memory));
  block->initialize(WeightInitializer(3), "block", 0.4, 0.4);
  block->to(at::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : block->named_parameters())  // weights and biases that are not 1 and 0
    if (parameter.key().find("norm") != std::string::npos)
      parameter.value().add_(torch::randn(parameter.value().sizes(), at::kDouble), 0.3);
  return block;
}

at::Tensor input(std::int64_t length = tokens, std::uint64_t seed = 5) {
  return torch::randn({batch, length, width}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

TEST(TransformerBlock, IsItsFormula) {
  const at::Tensor x = input(), other = input(tokens, 9), memory = input(4, 8);
  for (const NormPlace place : {NormPlace::before, NormPlace::after})
    for (const bool causal : {false, true})
      for (const bool with_memory : {false, true}) {
        TransformerBlock block = make(place, causal, with_memory);
        const ForwardContext context{.memory = with_memory ? memory : at::Tensor()};
        const at::Tensor expected = BlockFormula{block->named_parameters(), heads}.block(
            x + other, place == NormPlace::before, causal, context.memory);
        EXPECT_TRUE(at::allclose(block->forward({x, other}, context).total(), expected, 1e-9, 1e-11))
            << static_cast<int>(place) << causal << with_memory;
        const auto stream = hooked(place == NormPlace::before ? HookPlace::stream_after : HookPlace::normed_stream,
                                   block, ResidualStream{x, other}, context);
        EXPECT_TRUE(at::allclose(stream.at(0), expected, 1e-9, 1e-11));
        EXPECT_EQ(block->can_decode(), causal);
      }
}

TEST(TransformerBlock, HasBiasesWhereEachPartSaysSo) {
  TransformerBlockOptions options = options_of(NormPlace::before, true, true);
  options.norm_bias = false;
  for (const auto& parameter : TransformerBlock(options)->named_parameters())
    if (parameter.key().ends_with("bias")) {
      EXPECT_TRUE(parameter.key().starts_with("feed_forward.") || parameter.key().starts_with("memory_attention."))
          << parameter.key();
    }
}

TEST(TransformerBlock, DecodesWithAMemory) {
  const at::Tensor x = input(), memory = input(4, 8), lengths = at::tensor({4, 2}, at::kLong);
  const ForwardContext context{.memory = memory, .memory_lengths = lengths};
  for (const NormPlace place : {NormPlace::before, NormPlace::after}) {
    TransformerBlock block = make(place, true, true);
    const at::Tensor expected = block->forward({x}, context).total();
    std::unique_ptr<LayerState> state = block->make_state(batch, tokens);
    const auto step = [&](LayerState& of, const at::Tensor& next, ForwardContext given) {
      given.layer_state = &of;
      return block->forward({next}, given).total();
    };
    EXPECT_TRUE(at::allclose(step(*state, x.narrow(1, 0, 3), context), expected.narrow(1, 0, 3), 1e-9, 1e-11));
    const auto copy = state->fork(at::tensor({1, 0}, at::kLong));
    EXPECT_EQ(copy->bytes(), state->bytes());
    // The memory is not read again.
    EXPECT_TRUE(at::allclose(step(*state, x.narrow(1, 3, 3), {}), expected.narrow(1, 3, 3), 1e-9, 1e-11));
    EXPECT_TRUE(
        at::allclose(step(*copy, x.narrow(1, 3, 3).flip(0), {}), expected.narrow(1, 3, 3).flip(0), 1e-9, 1e-11));
    state->crop(at::full({batch}, 4, at::kLong));
    EXPECT_EQ(state->longest(), 4);
    EXPECT_TRUE(at::allclose(step(*state, x.narrow(1, 4, 2), {}), expected.narrow(1, 4, 2), 1e-9, 1e-11));
  }
}

// Padding at the end does not change the other tokens.
TEST(TransformerBlock, SeesNoPadding) {
  const at::Tensor x = input();
  TransformerBlock block = make(NormPlace::before, false);
  const at::Tensor padded = block->forward({x}, {.lengths = at::tensor({6, 4}, at::kLong)}).total();
  EXPECT_TRUE(at::allclose(padded[0], block->forward({x}).total()[0], 1e-9, 1e-11));
  EXPECT_TRUE(at::allclose(padded[1].narrow(0, 0, 4), block->forward({x.narrow(1, 0, 4)}).total()[1], 1e-9, 1e-11));
}

}  // namespace
}  // namespace cogwheel::nn::transformer_block_test
