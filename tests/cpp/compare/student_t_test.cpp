#include "cogwheel/compare/statistics/student_t.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cogwheel::compare {
namespace {

TEST(StudentT, TwoSidedPHasClosedFormsForOneAndTwoDegrees) {
  for (const double t : {0.1, 0.5, 1.0, 2.5, 12.7, 300.0}) {
    EXPECT_NEAR(student_t_two_sided_p(t, 1), 1 - 2 / M_PI * std::atan(t), 1e-13) << t;
    EXPECT_NEAR(student_t_two_sided_p(t, 2), 1 - t / std::sqrt(2 + t * t), 1e-13) << t;
    EXPECT_EQ(student_t_two_sided_p(-t, 2), student_t_two_sided_p(t, 2));
  }
  EXPECT_DOUBLE_EQ(student_t_two_sided_p(0, 7), 1);
  EXPECT_EQ(student_t_two_sided_p(INFINITY, 3), 0);
}

// The usual printed table of critical values.
TEST(StudentT, QuantilesAgreeWithTheTable) {
  EXPECT_NEAR(student_t_quantile(0.95, 1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.95, 2), 4.30265, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.99, 2), 9.92484, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.95, 4), 2.77645, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.95, 30), 2.04227, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.95, 1e6), 1.95997, 1e-5);
  EXPECT_NEAR(student_t_two_sided_p(student_t_quantile(0.9, 5), 5), 0.1, 1e-14);
}

}  // namespace
}  // namespace cogwheel::compare
