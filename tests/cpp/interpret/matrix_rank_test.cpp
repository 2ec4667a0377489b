#include "cogwheel/interpret/matrix_rank.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/interpret/head_distance.h"

namespace cogwheel::interpret {
namespace {

at::Generator seeded(std::uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

TEST(MatrixRank, OfKnownMatrices) {
  const MatrixRank identity = matrix_rank(at::eye(7, at::kDouble));
  EXPECT_EQ(identity.numerical, 7);
  EXPECT_NEAR(identity.effective, 7, 1e-12);
  EXPECT_NEAR(identity.stable, 7, 1e-12);
  EXPECT_EQ(identity.negative_share, 0);
  const MatrixRank outer = matrix_rank(at::outer(at::arange(1, 5, at::kDouble), at::arange(-3, 2, at::kDouble)));
  EXPECT_EQ(outer.numerical, 1);
  EXPECT_NEAR(outer.effective, 1, 1e-9);
  EXPECT_DOUBLE_EQ(outer.negative_share, 0.6);
  // σ = 3, 1: p = 3/4, 1/4.
  const MatrixRank two = matrix_rank(at::diag(at::tensor({-3., 1.}, at::kDouble)));
  EXPECT_NEAR(two.effective, std::exp(-0.75 * std::log(0.75) - 0.25 * std::log(0.25)), 1e-12);
  EXPECT_NEAR(two.stable, 10. / 9, 1e-12);
  const MatrixRank nothing = matrix_rank(at::zeros({3, 4}, at::kDouble));
  EXPECT_EQ(nothing.numerical, 0);
  EXPECT_EQ(nothing.effective, 0);
}

// l = 400, d = 32, ‖A‖ = 8.
TEST(MatrixRank, OfPowersAndExponentialsOfALowRankMatrix) {
  const at::Tensor query = at::randn({400, 32}, seeded(1), at::kDouble),
                   key = at::randn({400, 32}, seeded(2), at::kDouble);
  std::map<std::string, MatrixRank> ranks;
  for (const NamedMatrix& matrix : score_matrices(query, key, 8)) ranks[matrix.name] = matrix_rank(matrix.values);
  for (const char* low : {"QKᵀ", "QQᵀ", "(QQᵀ)²", "(QQᵀ)³", "exp(QQᵀ) − I"})
    EXPECT_EQ(ranks.at(low).numerical, 32) << low;
  for (const char* full : {"exp(QQᵀ)", "QQᵀ, causal", "softmax"}) EXPECT_EQ(ranks.at(full).numerical, 400) << full;
  // Triangles of 400 numbers on the diagonal, some of which are near 0.
  for (const char* nearly : {"QKᵀ, causal", "softmax, causal", "Cog, causal"})
    EXPECT_GT(ranks.at(nearly).numerical, 380) << nearly;
  EXPECT_NEAR(ranks.at("QQᵀ").singular_values.front(), 8, 1e-9);
  EXPECT_NEAR(ranks.at("exp(QQᵀ)").singular_values.front(), std::exp(8), 1e-6);
  EXPECT_EQ(ranks.at("softmax").negative_share, 0);
  EXPECT_GT(ranks.at("QQᵀ").negative_share, 0.3);  // no negative eigenvalue, yet negative entries
  EXPECT_GT(ranks.at("exp(QQᵀ)").negative_share, 0.1);
}

TEST(MatrixRank, RefusesWhatIsNoMatrix) {
  EXPECT_THROW(matrix_rank(at::zeros({3})), UsageError);
  EXPECT_THROW(matrix_rank(at::full({2, 2}, std::nan(""))), UsageError);
  EXPECT_THROW(score_matrices(at::zeros({3, 2}), at::zeros({4, 2}), 8), UsageError);
}

TEST(HeadDistance, IsZeroForEqualMapsAndOneForDisjointOnes) {
  // Three heads: the first key, the last one, and the first with a negative weight.
  at::Tensor maps = at::zeros({3, 4, 4}, at::kDouble);
  for (std::int64_t query = 0; query < 4; ++query) {
    maps[0][query][0] = 1;
    maps[1][query][query] = 1;
    maps[2][query][0] = -1;
  }
  const at::Tensor distances = head_distances(maps);
  EXPECT_TRUE(at::allclose(distances, 1 - at::eye(3, at::kDouble)));
  EXPECT_NEAR(mean_head_distance(head_distances(maps)).item<double>(), 1, 1e-12);
  EXPECT_TRUE(mean_head_distance(head_distances(maps.narrow(0, 0, 1))).isnan().item<bool>());
  maps[1] = 0.5 * maps[0] + 0.5 * maps[1];
  EXPECT_NEAR(head_distances(maps)[0][1].item<double>(), 0.5, 1e-12);
  EXPECT_THROW(head_distances(at::zeros({2, 1, 1})), UsageError);
}

TEST(HeadDistance, OfEqualMagnitudesWithRandomSignsIsHalf) {
  torch::manual_seed(1);
  const at::Tensor magnitudes = at::ones({256, 256}, at::kDouble).tril() / at::arange(1, 257).unsqueeze(1);
  const at::Tensor maps = magnitudes * (at::randint(2, {2, 256, 256}) * 2 - 1);
  EXPECT_NEAR(head_distances(maps)[0][1].item<double>(), 0.5, 0.01);
  EXPECT_EQ(head_distances(maps.abs())[0][1].item<double>(), 0);
}

}  // namespace
}  // namespace cogwheel::interpret
