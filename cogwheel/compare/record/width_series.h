// What a comparison at several widths says of size: for each mechanism or variant how its loss falls with the number of
// parameters, and what the gap to the baseline does.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/compare/statistics/power_law.h"

namespace cogwheel::compare {

struct WidthPoint {
  std::string row;
  std::int64_t width = 0;
  std::int64_t size = 0;  // parameters without embeddings and head
  std::optional<double> mean = {};
  double learning_rate = 0;
  // Of rates that were searched: what the best one of the first width costs here, in the deciding measure, beside the
  // best one of this width; 0 where it is the same. None where it was not tried here.
  std::optional<double> first_rate_costs = {};
};

// With its 95 % interval, if there are two seeds at least.
struct FittedNumber {
  double value = 0;
  std::optional<double> low = {}, high = {};
};

// mean = limit + factor · size^(−exponent)
struct FittedLaw {
  FittedNumber limit, factor, exponent;

  PowerLaw law() const { return {limit.value, factor.value, exponent.value}; }
};

enum class GapChange { grows, shrinks, changes_sign, cannot_tell };
std::string_view gap_name(GapChange change);

// The difference to the baseline of the same width and seed, as a line over log₂ of the size.
struct Gap {
  double per_doubling = 0;
  std::optional<double> interval = {}, confidence = {}, p_adjusted = {};  // see holm()
  GapChange change = GapChange::cannot_tell;  // of its magnitude, between the first and the last width
};

struct WidthSeries {
  std::string name = {}, title = {};
  std::vector<WidthPoint> points = {};  // by rising width
  std::int64_t seeds = 0;               // that finished at every width
  std::optional<FittedLaw> law = {};
  std::string why_no_law = {};
  std::optional<Gap> gap = {};  // none of the baseline
};

// In the order of the report; none where the comparison has no widths.
std::vector<WidthSeries> width_series(const Comparison& comparison);

// The points of a series, without what is fitted.
std::vector<WidthPoint> points_of_series(const Comparison& comparison, std::string_view series);

}  // namespace cogwheel::compare
