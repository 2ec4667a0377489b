// Measures of values, spectra, kept keys, symmetry and recalled pairs on matrices whose answers are known.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/token.h"
#include "cogwheel/interpret/attention_spectrum.h"
#include "cogwheel/interpret/kept_keys.h"
#include "cogwheel/interpret/needle_accuracy.h"
#include "cogwheel/interpret/score_symmetry.h"
#include "cogwheel/interpret/value_statistics.h"

namespace cogwheel::interpret {
namespace {

at::Tensor drawn_normal(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

TEST(ValueStatistics, TellNormalPointsFromOthers) {
  const at::Tensor normal = drawn_normal({4000, 6}, 1);
  const ValueStatistics of_normal = value_statistics(normal.mm(drawn_normal({6, 6}, 2)));
  EXPECT_NEAR(of_normal.kurtosis, 1, 0.05);
  EXPECT_LT(std::abs(of_normal.kurtosis_z), 3);
  EXPECT_LT(of_normal.bias, 0.05);
  EXPECT_GT(value_statistics(normal * (2 * drawn_normal({4000, 1}, 3)).exp()).kurtosis_z, 20);  // far tails
  EXPECT_LT(value_statistics(normal / normal.norm(2, 1, true)).kurtosis_z, -20);                // a sphere
  const ValueStatistics shifted = value_statistics(normal + 10);
  EXPECT_GT(shifted.bias, 0.98);
  EXPECT_NEAR(shifted.kurtosis, value_statistics(normal).kurtosis, 1e-9);
}

TEST(ValueStatistics, MeasureTheDirectionsThatThereAre) {
  const at::Tensor flat = drawn_normal({3000, 2}, 4).mm(drawn_normal({2, 5}, 5));
  const ValueStatistics found = value_statistics(flat);
  EXPECT_EQ(found.directions, 2);
  EXPECT_NEAR(found.kurtosis, 1, 0.1);
  EXPECT_LE(found.effective_rank, 2);
  const ValueStatistics even =
      value_statistics(at::cat({at::eye(3, at::kDouble), -at::eye(3, at::kDouble)}).repeat({2, 1}));
  EXPECT_NEAR(even.effective_rank, 3, 1e-9);
  EXPECT_NEAR(even.largest_share, 1. / 3, 1e-9);
  EXPECT_TRUE(std::isnan(value_statistics(drawn_normal({4, 3}, 6)).kurtosis));
  EXPECT_THROW(value_statistics(at::zeros({1, 3})), UsageError);
}

TEST(AttentionSpectrum, OfKnownMatrices) {
  const at::Tensor turn = at::tensor({0., 2., -2., 0.}, at::kDouble).view({2, 2});
  const AttentionSpectrum turned = attention_spectrum(turn);
  EXPECT_NEAR(turned.largest, 0, 1e-12);
  EXPECT_NEAR(turned.imaginary, 2, 1e-12);
  EXPECT_NEAR(turned.radius, 2, 1e-12);
  EXPECT_NEAR(turned.largest_symmetric, 0, 1e-12);
  const AttentionSpectrum causal = attention_spectrum(at::tensor({-1., 0., 5., 0.5}, at::kDouble).view({2, 2}));
  EXPECT_EQ(causal.least, -1);
  EXPECT_EQ(causal.largest, 0.5);
  EXPECT_EQ(causal.imaginary, 0);
  EXPECT_EQ(causal.second, 0.5);
  EXPECT_NEAR(causal.largest_symmetric, -0.25 + std::sqrt(0.75 * 0.75 + 2.5 * 2.5), 1e-12);
  const AttentionSpectrum stochastic = attention_spectrum(at::softmax(drawn_normal({7, 7}, 7), 1));
  EXPECT_NEAR(stochastic.largest, 1, 1e-12);
  EXPECT_LT(stochastic.second, 1);
  EXPECT_THROW(attention_spectrum(at::zeros({2, 3})), UsageError);
}

TEST(KeptKeys, AreTheNewestOrTheHeaviest) {
  const at::Tensor maps = at::tensor({1., 0., 0., 0.,      //
                                      .7, -.3, 0., 0.,     //
                                      -.6, .1, .3, 0.,     //
                                      .1, -.4, .25, .25},  //
                                     at::kDouble)
                              .view({1, 4, 4});
  const auto row = [&](KeptKeys kept, double share, bool renormalised, std::int64_t query, std::int64_t window = 0) {
    const at::Tensor found = with_kept_keys(maps, kept, share, renormalised, window)[0][query].contiguous();
    return std::vector<double>(found.const_data_ptr<double>(), found.const_data_ptr<double>() + 4);
  };
  using Row = std::vector<double>;
  EXPECT_EQ(row(KeptKeys::newest, 0.5, false, 3), (Row{0, 0, .25, .25}));
  EXPECT_EQ(row(KeptKeys::newest, 0.5, true, 3), (Row{0, 0, .5, .5}));
  EXPECT_EQ(row(KeptKeys::newest, 0.5, false, 2), (Row{0, .1, .3, 0}));  // half of three is two
  EXPECT_EQ(row(KeptKeys::heaviest, 0.25, false, 3), (Row{0, -.4, 0, 0}));
  EXPECT_EQ(row(KeptKeys::heaviest, 0.25, true, 3), (Row{0, -1, 0, 0}));
  // Key 1 was dropped by the third query, and does not come back though the fourth weighs it most.
  EXPECT_EQ(row(KeptKeys::accumulated, 0.5, false, 2), (Row{-.6, 0, .3, 0}));
  EXPECT_EQ(row(KeptKeys::accumulated, 0.5, false, 3), (Row{.1, 0, 0, .25}));
  EXPECT_EQ(row(KeptKeys::newest, 0.5, false, 3, 2), (Row{0, 0, 0, .25}));  // of a window of two
  for (const KeptKeys kept : {KeptKeys::newest, KeptKeys::heaviest, KeptKeys::accumulated})
    EXPECT_TRUE(at::equal(with_kept_keys(maps, kept, 1, true), maps));
  EXPECT_THROW(with_kept_keys(maps, KeptKeys::newest, 0, true), UsageError);
}

TEST(ScoreSymmetry, IsZeroForSymmetricAndInfiniteForSkewMatrices) {
  const at::Tensor any = drawn_normal({9, 9}, 8);
  EXPECT_EQ(asymmetry(any + any.t()).item<double>(), 0);
  EXPECT_TRUE(std::isinf(asymmetry(any - any.t()).item<double>()));
  const double ratio = asymmetry(any).item<double>();
  EXPECT_NEAR(symmetric_share(any).item<double>(), 1 / (1 + ratio * ratio), 1e-12);
  EXPECT_EQ(asymmetry(at::stack({any + any.t(), any}))[0].item<double>(), 0);
}

TEST(NeedleAccuracy, CountsByThePlaceOfThePair) {
  constexpr std::int64_t bar = 9, none = ignored_target;
  // Three pairs, all asked; four of which key 0 is written twice; and one pair alone, which is left out.
  const auto rows_of = [](const std::vector<std::int64_t>& all) { return torch::tensor(all, at::kLong).view({3, 12}); };
  const at::Tensor tokens = rows_of({0, 5, 1,   6, 2, 7, bar, 2, 0,   1, bar, bar,  //
                                     0, 5, 1,   6, 0, 7, 3,   5, bar, 3, 0,   1,    //
                                     4, 5, bar, 4, 4, 4, 4,   4, 4,   4, 4,   4});
  const at::Tensor targets = rows_of({none, none, none, none, none, none, none, 7,    5,    6, none, none,  //
                                      none, none, none, none, none, none, none, none, none, 5, 7,    6,     //
                                      none, none, none, 5,    5,    5,    5,    5,    5,    5, 5,    5});
  at::Tensor answers = targets.clone();
  answers[0][8] = 6;  // the first pair
  answers[1][11] = 5;
  const NeedleAccuracy found = needle_accuracy(tokens, targets, answers, bar);
  EXPECT_EQ(found.asked[0], 1);
  EXPECT_EQ(found.right[0], 0);
  EXPECT_EQ(found.asked[3], 1);  // the second of four
  EXPECT_EQ(found.right[3], 0);
  EXPECT_EQ(found.asked[5], 1);
  EXPECT_EQ(found.right[5], 1);
  EXPECT_EQ(found.asked[10], 2);
  EXPECT_EQ(found.accuracy(0, 10), 0.6);
  EXPECT_THROW(needle_accuracy(tokens.narrow(0, 2, 1), targets.narrow(0, 2, 1), answers.narrow(0, 2, 1), bar),
               UsageError);
}

}  // namespace
}  // namespace cogwheel::interpret
