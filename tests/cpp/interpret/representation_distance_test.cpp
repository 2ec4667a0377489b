// Distances of last representations against sums by hand and against the logits that a head makes of them.
#include "cogwheel/interpret/representation_distance.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "interpret/small_models.h"
#include "support/usage_error_of.h"

namespace cogwheel::interpret {
namespace {

TEST(RepresentationDistance, EqualsSumsByHand) {
  const at::Tensor one = torch::tensor({3., -4., 0., 1., 2., 5.}, at::kDouble),
                   other = torch::tensor({3., -2., 1., 1., -1., 5.}, at::kDouble);
  const RepresentationDistance found = representation_distance(one, other, 3);
  EXPECT_DOUBLE_EQ(found.blocks, (2. + 1 + 3) / 3);
  EXPECT_DOUBLE_EQ(found.euclidean, std::sqrt(4. + 1 + 9));
  EXPECT_DOUBLE_EQ(found.relative_euclidean, std::sqrt(14. / (9 + 16 + 1 + 4 + 25)));
  EXPECT_DOUBLE_EQ(found.largest, 3);
  EXPECT_DOUBLE_EQ(found.relative_largest, 3. / 5);
}

TEST(RepresentationDistance, IsOfWhatTheHeadReads) {
  const torch::NoGradGuard no_gradient;
  for (const SmallModel& small :
       {SmallModel{"gpt", "softmax"}, SmallModel{"llama", "cog"}, SmallModel{"llama", "differential"}}) {
    tasks::language::LanguageModel model = make_small(small);
    const at::Tensor tokens = other_tokens()[2];
    const at::Tensor last = last_representation(*model, tokens);
    at::Tensor logits = model->unembedding().mv(last);
    if (const at::Tensor bias = model->unembedding_bias(); bias.defined()) logits = logits + bias;
    EXPECT_LT((model->forward(tokens.unsqueeze(0))[0][8] - logits).abs().max().item<double>(), 1e-10);
  }
}

TEST(RepresentationDistance, RefusesWhatDoesNotFit) {
  const at::Tensor six = at::ones({6}, at::kDouble);
  EXPECT_EQ(usage_error_of([&] { representation_distance(six, six, 4); }),
            "representations: blocks: expected a divisor of 6, got 4");
  EXPECT_THROW(representation_distance(six, six.view({2, 3}), 2), UsageError);
  tasks::language::LanguageModel model = make_small({"gpt", "softmax"});
  EXPECT_THROW(last_representation(*model, at::zeros({1, 4}, at::kLong)), UsageError);
  EXPECT_THROW(last_representation(*model, at::zeros({0}, at::kLong)), UsageError);
  EXPECT_THROW(last_representation(*model, at::zeros({13}, at::kLong)), UsageError);
}

}  // namespace
}  // namespace cogwheel::interpret
