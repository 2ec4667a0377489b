// What each layer's swap costs, of documents that a window holds.
#include "cogwheel/surgery/layer_swaps.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/conversion/weight_conversion.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::surgery::layer_swaps_test {
namespace {

using tasks::language::LanguageModel;

LanguageModel made(const std::string& mechanism, std::uint64_t seed) {
  LanguageModel model(tasks::language::LanguageModelOptions{.vocabulary = 11,
                                                            .context = 12,
                                                            .layers = 3,
                                                            .heads = 4,
                                                            .width = 32,
                                                            .position = "rotary",
                                                            .mechanism = mechanism});
  model->initialize(seed);
  return model;
}

at::Tensor tokens() { return at::randint(11, {2, 12}, at::make_generator<at::CPUGeneratorImpl>(1), at::kLong); }

TEST(LayerSwaps, ReadDocumentsApart) {
  LanguageModel from = made("softmax", 1), to = made("cog", 2);
  nn::convert_weights(*from, *to);
  const at::Tensor text = tokens(), targets = tokens().flip(1);
  // Two documents of 5 and 7 tokens in each row, whose last tokens have no target.
  at::Tensor kept = targets.clone(), places = at::cat({at::arange(5), at::arange(7)}).expand({2, 12}).contiguous();
  kept.select(1, 4).fill_(ignored_target);
  const LayerSwaps packed = layer_swaps(from, to, {.inputs = text, .targets = kept, .positions = places});
  double loss = 0;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < 2; ++row)
    for (const auto& [first, length] : {std::pair{0, 5}, {5, 7}}) {
      const auto part = [&](const at::Tensor& of) { return of.narrow(0, row, 1).narrow(1, first, length); };
      const LayerSwaps alone = layer_swaps(from, to, {.inputs = part(text), .targets = part(kept)});
      loss += alone.layers[1].loss * static_cast<double>(alone.tokens);
      count += alone.tokens;
    }
  EXPECT_EQ(packed.tokens, count);
  EXPECT_NEAR(packed.layers[1].loss, loss / static_cast<double>(count), 1e-6);
  EXPECT_GT(packed.layers[1].divergence, 0);
}

}  // namespace
}  // namespace cogwheel::surgery::layer_swaps_test
