#include "cogwheel/compare/statistics/claim_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/compare/statistics/student_t.h"

namespace cogwheel::compare {
namespace {

using Relation = TestedClaim::Relation;

double normal_cdf(double value) { return std::erfc(-value / std::sqrt(2.0)) / 2; }

// Sample standard deviations of `count` standard normal values, at the middle of equally probable classes. They are
// asked for again and again.
const std::vector<double>& deviations(std::int64_t count) {
  constexpr int classes = 100;
  thread_local std::map<std::int64_t, std::vector<double>> known;
  std::vector<double>& found = known[count];
  if (!found.empty()) return found;
  const double degrees = static_cast<double>(count - 1);
  const boost::math::chi_squared distribution(degrees);
  for (int index = 0; index < classes; ++index)
    found.push_back(std::sqrt(boost::math::quantile(distribution, (index + 0.5) / classes) / degrees));
  return found;
}

// The probability that a test sees a true mean so many standard deviations from its bound, or confirms a margin of as
// many; `level` as in ClaimResult.
using Power = double (*)(double multiple, std::int64_t count, double level);

double power_of_difference(double multiple, std::int64_t count, double level) {
  const double shift = std::abs(multiple) * std::sqrt(static_cast<double>(count));
  const double critical = student_t_quantile(1 - level, static_cast<double>(count - 1));
  const std::vector<double>& spread = deviations(count);
  double sum = 0;
  for (const double deviation : spread)
    sum += normal_cdf(shift - critical * deviation) + normal_cdf(-shift - critical * deviation);
  return sum / static_cast<double>(spread.size());
}

// Of a true mean of 0.
double power_of_equality(double margin, std::int64_t count, double level) {
  const double reach = margin * std::sqrt(static_cast<double>(count));
  const double critical = student_t_quantile(1 - 2 * level, static_cast<double>(count - 1));
  const std::vector<double>& spread = deviations(count);
  double sum = 0;
  for (const double deviation : spread) {
    const double room = reach - critical * deviation;
    if (room > 0) sum += 2 * normal_cdf(room) - 1;
  }
  return sum / static_cast<double>(spread.size());
}

// The multiple of the standard deviation found in one sample that another of that size shows with the wanted power: it
// is the expectation over both samples that has this power, for a deviation of few values is often too small.
double visible_multiple(Power power, std::int64_t count, double level) {
  thread_local std::map<std::tuple<Power, std::int64_t, double>, double> known;
  double& found = known[{power, count, level}];
  if (found > 0) return found;
  const auto expected = [&](double multiple) {
    double sum = 0;
    for (const double deviation : deviations(count)) sum += power(multiple * deviation, count, level);
    return sum / static_cast<double>(deviations(count).size());
  };
  double low = 0, high = 1;
  while (expected(high) < wanted_power && high < 1e6) low = high, high *= 2;
  for (int step = 0; step < 20; ++step) {
    const double middle = (low + high) / 2;
    (expected(middle) < wanted_power ? low : high) = middle;
  }
  return found = high;
}

// How many values have the wanted power, more than `count`; power grows with their number.
std::optional<std::int64_t> values_needed(Power power, double multiple, std::int64_t count, double level) {
  if (!(power(multiple, most_seeds, level) >= wanted_power)) return std::nullopt;
  std::int64_t low = count, high = most_seeds;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (power(multiple, middle, level) < wanted_power ? low : high) = middle;
  }
  return high;
}

struct Sample {
  double mean = 0, deviation = 0, error = 0;
  std::int64_t count = 0;
  bool spread = false;

  Sample(std::span<const double> values, double rounding)
      : count(std::ssize(values)), spread(has_spread(values, rounding)) {
    const double size = static_cast<double>(count);
    mean = count == 0 ? std::numeric_limits<double>::quiet_NaN()
                      : std::accumulate(values.begin(), values.end(), 0.0) / size;
    if (!spread) return;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    deviation = std::sqrt(squares / (size - 1));
    error = deviation / std::sqrt(size);
  }

  double degrees() const { return static_cast<double>(count - 1); }
  // The p-value of a test whose alternative is that the true mean lies below, or above, `bound`.
  double p_below(double bound) const {
    const double t = (mean - bound) / error, two_sided = student_t_two_sided_p(t, degrees());
    return t < 0 ? two_sided / 2 : 1 - two_sided / 2;
  }
  double p_above(double bound) const { return 1 - p_below(bound); }
};

// What speaks for a claim and what against it, each the p-value of one test; the claim has one p-value of both, whose
// smaller side is the verdict.
struct Evidence {
  double in_favour = 1, against = 1;
  double p = 1;
};

Evidence evidence_of(const TestedClaim& claim, const Sample& sample, const Sample& later) {
  Evidence found;
  switch (claim.relation) {
    case Relation::below:
      found.in_favour = sample.p_below(claim.bound), found.against = sample.p_above(claim.bound);
      break;
    case Relation::above:
      found.in_favour = sample.p_above(claim.bound), found.against = sample.p_below(claim.bound);
      break;
    case Relation::equal:
      // One of both is true, so that only one can be an error.
      found.in_favour = std::max(sample.p_below(claim.bound), sample.p_above(-claim.bound));
      found.against = 2 * std::min(sample.p_above(claim.bound), sample.p_below(-claim.bound));
      found.p = std::min({1.0, found.in_favour, found.against});
      return found;
    case Relation::crosses: {
      const double below = claim.rises ? sample.p_below(0) : sample.p_above(0);
      const double above = claim.rises ? later.p_above(0) : later.p_below(0);
      found.in_favour = std::max(below, above);
      found.against = 2 * std::min(1 - below, 1 - above);
      break;
    }
  }
  found.p = std::min(1.0, 2 * std::min(found.in_favour, found.against));
  return found;
}

// What a page says where its seeds cannot tell, at the level at which the claim was tested.
void say_what_seeds_show(const TestedClaim& claim, const Sample& sample, double level, ClaimResult& result) {
  const bool equal = claim.relation == Relation::equal;
  const Power power = equal ? power_of_equality : power_of_difference;
  result.visible = sample.deviation * visible_multiple(power, sample.count, level);
  const double bound = claim.relation == Relation::crosses ? 0 : claim.bound;
  const double found = equal ? claim.bound : std::abs(sample.mean - bound);
  result.seeds_needed = values_needed(power, found / sample.deviation, sample.count, level);
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  return verdict == Verdict::agrees ? "agrees" : verdict == Verdict::contradicts ? "contradicts" : "cannot tell";
}

std::string visible_text(Relation relation, std::int64_t count, const ClaimResult& result, std::string_view values) {
  const bool equal = relation == Relation::equal;
  return fmt::format(
      "{} {} show {} {:.2g}; {} takes {}", count, values, equal ? "a margin of" : "a difference of", *result.visible,
      equal ? "that of the claim" : "the one found",
      result.seeds_needed ? std::to_string(*result.seeds_needed) : fmt::format("more than {}", most_seeds));
}

double power_of_t_test(double distance, std::int64_t count, double level) {
  return power_of_difference(distance, count, level);
}

std::vector<ClaimResult> decide_claims(std::span<const TestedClaim> claims) {
  std::vector<ClaimResult> results(claims.size());
  std::vector<Sample> samples, later;
  std::vector<Evidence> evidence(claims.size());
  std::vector<double> p_values;
  std::vector<std::size_t> tested;
  for (std::size_t index = 0; index < claims.size(); ++index) {
    const TestedClaim& claim = claims[index];
    const bool crosses = claim.relation == Relation::crosses;
    samples.emplace_back(claim.values, claim.rounding);
    later.emplace_back(claim.later, claim.rounding);
    results[index].mean = samples.back().mean;
    if (crosses) results[index].later_mean = later.back().mean;
    if (!samples.back().spread || (crosses && !later.back().spread)) continue;
    evidence[index] = evidence_of(claim, samples.back(), later.back());
    p_values.push_back(evidence[index].p);
    tested.push_back(index);
  }
  const std::vector<HolmStep> steps = holm(p_values);
  for (std::size_t place = 0; place < tested.size(); ++place) {
    const std::size_t index = tested[place];
    const Sample& sample = samples[index];
    ClaimResult& result = results[index];
    result.p_adjusted = steps[place].p_adjusted;
    const double level = 1 - steps[place].confidence;
    // Two one-sided tests at a level are an interval of twice that level.
    const bool equal = claims[index].relation == Relation::equal;
    result.confidence = equal ? 1 - 2 * level : 1 - level;
    result.interval = sample.error * student_t_quantile(*result.confidence, sample.degrees());
    if (result.later_mean)
      result.later_interval = later[index].error * student_t_quantile(*result.confidence, later[index].degrees());
    if (*result.p_adjusted < significance_level)
      result.verdict = evidence[index].in_favour < evidence[index].against ? Verdict::agrees : Verdict::contradicts;
    else
      say_what_seeds_show(claims[index], sample, level, result);
  }
  return results;
}

}  // namespace cogwheel::compare
