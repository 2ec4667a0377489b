#include "cogwheel/interpret/head_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/interpret/copying.h"
#include "interpret/small_models.h"
#include "support/usage_error_of.h"

namespace cogwheel::interpret {
namespace {

TEST(HeadScores, AreMeansOfSingleWeights) {
  const torch::NoGradGuard no_gradient;
  for (const char* mechanism : {"softmax", "cog", "differential"}) {
    tasks::language::LanguageModel model = make_small({"gpt", mechanism});
    constexpr std::int64_t rows = 3, length = 5;
    const at::Tensor tokens = repeated_tokens(23, rows, length, 7);
    EXPECT_TRUE(tokens.equal(repeated_tokens(23, rows, length, 7)));
    EXPECT_FALSE(tokens.equal(repeated_tokens(23, rows, length, 8)));
    std::map<std::int64_t, at::Tensor> patterns;
    nn::Hooks hooks;
    hooks.read(nn::HookPlace::pattern,
               [&](const nn::HookPoint& at, const at::Tensor& value) { patterns[at.layer] = value; });
    model->forward(tokens, {.hooks = &hooks});
    const HeadScores found = head_scores(*model, tokens);
    for (const auto& [layer, pattern] : patterns)
      for (std::int64_t head = 0; head < pattern.size(1); ++head) {
        double previous = 0, duplicate = 0, induction = 0, magnitude = 0;
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t token = length; token < 2 * length; ++token) {
            const auto weight = [&](std::int64_t key) { return pattern[row][head][token][key].item<double>(); };
            previous += weight(token - 1);
            duplicate += weight(token - length);
            induction += weight(token - length + 1);
            magnitude += std::abs(weight(token - length + 1));
          }
        EXPECT_NEAR(found.previous.weight[layer][head].item<double>(), previous / (rows * length), 1e-12);
        EXPECT_NEAR(found.duplicate.weight[layer][head].item<double>(), duplicate / (rows * length), 1e-12);
        EXPECT_NEAR(found.induction.weight[layer][head].item<double>(), induction / (rows * length), 1e-12);
        EXPECT_NEAR(found.induction.magnitude[layer][head].item<double>(), magnitude / (rows * length), 1e-12);
      }
  }
  tasks::language::LanguageModel model = make_small({"gpt", "softmax"});
  EXPECT_EQ(usage_error_of([&] {
              head_scores(*model, at::arange(8, at::kLong).view({1, 8}));
            }),
            "head scores: tokens: expected rows whose second half repeats the first, got others");
}

// The whole circuit as a matrix of the vocabulary, whose eigenvalues other than 0 are those of the small product.
TEST(CopyingScores, AreThoseOfTheWholeMatrix) {
  const torch::NoGradGuard no_gradient;
  for (const SmallModel& small :
       {SmallModel{"gpt", "softmax"}, SmallModel{"llama", "cog", 2}, SmallModel{"llama", "differential"}}) {
    SCOPED_TRACE(small.form + " " + small.mechanism);
    tasks::language::LanguageModel model = make_small(small);
    const CopyingScores found = copying_scores(*model);
    const auto parameters = model->named_parameters();
    const at::Tensor embedding = parameters["token_embedding"];
    const at::Tensor unembedding = parameters.contains("head.weight") ? parameters["head.weight"] : embedding;
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const auto of_layer = [&](const std::string& name) {
        return parameters["layers." + std::to_string(layer) + "." + name];
      };
      const at::Tensor projection = of_layer("attention.query_key_value.weight"),
                       output = of_layer("attention.output.weight");
      const bool difference = small.mechanism == "differential";
      const std::int64_t heads = difference ? 2 : 4, width = 32 / heads, groups = small.key_value_heads > 0 ? 2 : heads;
      for (std::int64_t head = 0; head < heads; ++head) {
        const at::Tensor value =
            projection.slice(0, projection.size(0) - groups * width).narrow(0, head / (heads / groups) * width, width);
        at::Tensor written = output.narrow(1, head * width, width);
        if (difference)
          written = written * of_layer("attention.head_norm") *
                    (1 - (0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(layer))));
        const at::Tensor matrix = unembedding.mm(at::diag(parameters["final_norm.weight"]))
                                      .mm(written)
                                      .mm(value)
                                      .mm(at::diag(of_layer("attention_norm.weight")))
                                      .mm(embedding.t());
        const auto positivity = [](const at::Tensor& of) {
          const at::Tensor eigenvalues = at::linalg_eigvals(of);
          return (at::real(eigenvalues).sum() / eigenvalues.abs().sum()).item<double>();
        };
        EXPECT_NEAR(found.full[layer][head].item<double>(), positivity(matrix), 1e-6);
        EXPECT_NEAR(found.bare[layer][head].item<double>(), positivity(written.mm(value)), 1e-6);
      }
    }
    EXPECT_GT(found.null_deviation, 0.05);
    EXPECT_LT(found.null_deviation, 0.9);
  }
  EXPECT_NEAR(eigenvalue_positivity(at::eye(4, at::kDouble)).item<double>(), 1, 1e-12);
  EXPECT_NEAR(eigenvalue_positivity(-at::eye(4, at::kDouble)).item<double>(), -1, 1e-12);
}

}  // namespace
}  // namespace cogwheel::interpret
