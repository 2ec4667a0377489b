#include "cogwheel/tasks/images/measures/precision_recall.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "support/error_of.h"

namespace cogwheel::tasks::images::precision_recall_test {
namespace {

at::Tensor line(const std::vector<double>& values) { return torch::tensor(values, at::kDouble).unsqueeze(1); }

// On a line, with the nearest neighbour: references 0, 1, 5 and 7 have the radii 1, 1, 2 and 2, and so cover −1 to 2
// and 3 to 9; samples 1.5, 2.5 and 12 have 1, 1 and 9.5, and so cover 0.5 to 3.5 and 2.5 to 21.5.
TEST(PrecisionRecall, OnALine) {
  const PrecisionRecall found = precision_recall(line({1.5, 2.5, 12}), line({0, 1, 5, 7}), 1);
  EXPECT_DOUBLE_EQ(found.precision, 1.0 / 3);
  EXPECT_DOUBLE_EQ(found.recall, 3.0 / 4);
}

TEST(PrecisionRecall, OfASetAndItself) {
  torch::manual_seed(3);
  const at::Tensor set = torch::randn({40, 6}, at::kDouble) + 1e4;
  const PrecisionRecall same = precision_recall(set, set), apart = precision_recall(set, set + 100);
  EXPECT_EQ(same.precision, 1);
  EXPECT_EQ(same.recall, 1);
  EXPECT_EQ(apart.precision, 0);
  EXPECT_EQ(apart.recall, 0);
}

// A model that draws one image again and again is precise where that image is a reference, and covers nothing else.
TEST(PrecisionRecall, OfOneImageAgainAndAgain) {
  const PrecisionRecall found = precision_recall(line({2, 2, 2, 2, 2}), line({0, 2, 4, 6, 8, 10}), 3);
  EXPECT_EQ(found.precision, 1);
  EXPECT_DOUBLE_EQ(found.recall, 1.0 / 6);
}

using Points = std::vector<std::array<double, 2>>;

double squared(const std::array<double, 2>& a, const std::array<double, 2>& b) {
  return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]);
}

// The share of `points` within a ball of `set`, by the definition.
double share_among(const Points& points, const Points& set, std::size_t neighbour) {
  std::vector<double> radii;
  for (std::size_t i = 0; i < set.size(); ++i) {
    std::vector<double> distances;
    for (std::size_t j = 0; j < set.size(); ++j)
      if (i != j) distances.push_back(squared(set[i], set[j]));
    std::nth_element(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(neighbour - 1),
                     distances.end());
    radii.push_back(distances[neighbour - 1]);
  }
  double among = 0;
  for (const auto& point : points)
    for (std::size_t i = 0; i < set.size(); ++i)
      if (squared(point, set[i]) <= radii[i]) {
        ++among;
        break;
      }
  return among / static_cast<double>(points.size());
}

// Large enough for several blocks.
TEST(PrecisionRecall, IsItsDefinitionAcrossBlocks) {
  torch::manual_seed(1);
  const auto drawn = [](std::int64_t count, double wide) {
    return torch::randn({count, 2}, at::kDouble) * torch::tensor({wide, 0.3}, at::kDouble);
  };
  const auto points = [](const at::Tensor& set) {
    Points all;
    for (std::int64_t i = 0; i < set.size(0); ++i) all.push_back({set[i][0].item<double>(), set[i][1].item<double>()});
    return all;
  };
  const at::Tensor samples = drawn(2100, 1.4), references = drawn(1900, 1);
  const PrecisionRecall found = precision_recall(samples, references);
  EXPECT_DOUBLE_EQ(found.precision, share_among(points(samples), points(references), 3));
  EXPECT_DOUBLE_EQ(found.recall, share_among(points(references), points(samples), 3));
  EXPECT_LT(found.precision, found.recall);
}

TEST(PrecisionRecall, RefusesSetsThatDoNotFit) {
  EXPECT_EQ(
      error_of([] {
        precision_recall(line({1, 2, 3}), line({1, 2, 3, 4}));
      }),
      "precision and recall: expected more than 3 images and the same features of each set, got [3, 1] and [4, 1]");
  EXPECT_EQ(
      error_of([] {
        precision_recall(line({1, 2, 3, 4}), torch::zeros({4, 2}, at::kDouble));
      }),
      "precision and recall: expected more than 3 images and the same features of each set, got [4, 1] and [4, 2]");
}

}  // namespace
}  // namespace cogwheel::tasks::images::precision_recall_test
