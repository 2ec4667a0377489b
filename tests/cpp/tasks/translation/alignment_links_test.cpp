#include "cogwheel/tasks/translation/alignment_links.h"

#include <gtest/gtest.h>

#include <limits>

namespace cogwheel::tasks::translation {
namespace {

using Links = std::vector<WordLink>;

TEST(AlignmentLinks, TheLargestMagnitudeOfARow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Three words and the end of the source; the last row is that of the end of the target.
  const std::vector<float> weights{0.2F, -0.7F, 0.1F, 0.0F,  // negative, and the largest
                                   0.1F, 0.1F,  0.2F, 0.6F,  // to the end: no word
                                   0.0F, 0.0F,  0.0F, 0.0F,  // nothing
                                   nan,  nan,   nan,  nan,   // no numbers
                                   0.5F, 0.5F,  0.0F, 0.0F,  // the first of equals
                                   0.0F, 0.0F,  1.0F, 0.0F};
  const AlignmentWeights view{.weights = weights, .columns = 4, .targets = 5, .sources = 3};
  EXPECT_EQ(links_of(view), (Links{{.source = 1, .target = 0}, {.source = 0, .target = 4}}));
}

// Pieces a1 a2 b of a source, x y1 y2 of a target.
TEST(AlignmentLinks, OfWordsAreThoseOfAnyOfTheirPieces) {
  const std::vector<std::int64_t> sources{0, 0, 1}, targets{0, 1, 1};
  const Links words = links_of_words(Links{{2, 0}, {0, 1}, {1, 2}}, sources, targets);
  EXPECT_EQ(words, (Links{{0, 1}, {1, 0}}));
  EXPECT_EQ(pharaoh_text(words), "0-1 1-0");
  EXPECT_EQ(pharaoh_text(Links{}), "");
}

// By hand: A = {0-0, 1-1, 2-1}, S = {0-0, 1-2}, P = S ∪ {1-1}. |A ∩ S| = 1, |A ∩ P| = 2, |A| + |S| = 5.
TEST(AlignmentError, OfSureAndPossibleLinks) {
  const Links gold{{0, 0, true}, {1, 2, true}, {1, 1, false}}, links{{0, 0}, {1, 1}, {2, 1}};
  AlignmentError error;
  EXPECT_EQ(error.rate(), 0);
  error.add(links, gold);
  EXPECT_DOUBLE_EQ(error.rate(), 1 - 3.0 / 5.0);
  // Sentences are counted together: a perfect one, where possible links may be missing.
  error.add(Links{{0, 0}, {1, 2}}, gold);
  EXPECT_DOUBLE_EQ(error.rate(), 1 - (3.0 + 4.0) / (5.0 + 4.0));
}

TEST(AlignmentError, IsOneWhereNothingIsRight) {
  AlignmentError error;
  error.add(Links{{1, 0}}, Links{{0, 0}});
  EXPECT_EQ(error.rate(), 1);
}

TEST(Reordering, IsTheShareOfReversedPairs) {
  EXPECT_EQ(reordering(Links{}), 0);
  EXPECT_EQ(reordering(Links{{0, 0}, {1, 1}, {1, 2}, {5, 3}}), 0);
  EXPECT_EQ(reordering(Links{{2, 0}, {1, 1}, {0, 2}}), 1);
  EXPECT_DOUBLE_EQ(reordering(Links{{1, 0}, {2, 1}, {0, 2}}), 2.0 / 3.0);
  EXPECT_EQ(least_monotonic_first(std::vector<double>{0.1, 0.5, 0, 0.5}), (std::vector<std::int64_t>{1, 3, 0, 2}));
}

}  // namespace
}  // namespace cogwheel::tasks::translation
