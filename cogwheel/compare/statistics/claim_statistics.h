// What paired numbers say of a claim: that it holds, that the opposite holds, or that they cannot tell.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::compare {

enum class Verdict { agrees, contradicts, cannot_tell };

std::string_view verdict_name(Verdict verdict);  // "agrees", "contradicts", "cannot tell"

// A claim about a number of which each seed, or draw, gives one value; most are differences between two rows of one
// seed.
struct TestedClaim {
  enum class Relation {
    below,    // the mean lies below `bound`
    above,    // above it
    equal,    // within `bound` of 0
    crosses,  // the mean of `values` lies on one side of 0 and that of `later` on the other
  };

  Relation relation = Relation::below;
  double bound = 0;  // of `equal` its margin, above 0
  // Of `crosses`: whether `values` lie below 0 and `later` above, or the other way round.
  bool rises = true;
  std::vector<double> values = {};
  std::vector<double> later = {};  // of `crosses`, of the same seeds
  // By how much equal values may differ because numbers are rounded (compare/statistics/paired_statistics.h).
  double rounding = 0;
};

struct ClaimResult {
  Verdict verdict = Verdict::cannot_tell;
  double mean = 0;  // NaN without values
  // Half the width of the t interval at `confidence`; none where values have no spread. Of below and above it excludes
  // the bound exactly where the verdict is one; of `equal` it lies within the margin exactly where they agree.
  std::optional<double> interval = {};
  std::optional<double> confidence = {};
  std::optional<double> p_adjusted = {};  // Holm's, of all claims that were decided together
  std::optional<double> later_mean = {};  // of `crosses`
  std::optional<double> later_interval = {};
  // Where they cannot tell: the distance from the bound (of `equal` the margin) that as many seeds show in four of
  // five repetitions, by the spread found here.
  std::optional<double> visible = {};
  // And how many seeds show the distance that was found in as many repetitions; none above `most_seeds`.
  std::optional<std::int64_t> seeds_needed = {};
};

inline constexpr double wanted_power = 0.8;
inline constexpr std::int64_t most_seeds = 1000;

// Decides the claims of one page together: the probability that any verdict but `cannot_tell` is wrong is at most
// significance_level (Holm 1979).
//
// below, above: Student's t test of the mean against the bound, two-sided. equal: two one-sided tests (Schuirmann
// 1987); it is contradicted where the mean lies outside the margin by a one-sided test of either side at half the
// level. crosses: both means must lie on their side (an intersection-union test); it is contradicted where one lies on
// the other.
std::vector<ClaimResult> decide_claims(std::span<const TestedClaim> claims);

// "5 seeds show a difference of 0.02; the one found takes 14": of what `count` values cannot tell, whose result has a
// visible difference. `values` is what they are: "seeds", "draws".
std::string visible_text(TestedClaim::Relation relation, std::int64_t count, const ClaimResult& result,
                         std::string_view values);

// The probability that the two-sided t test at `level` sees a mean `distance` standard deviations from its bound, of
// `count` values.
double power_of_t_test(double distance, std::int64_t count, double level);

}  // namespace cogwheel::compare
