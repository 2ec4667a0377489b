#include "cogwheel/research/labs/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/compare/statistics/student_t.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/research/labs/sums.h"

namespace cogwheel::labs {

std::string number_for_readers(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value == std::round(value) && std::abs(value) < 1e15) {
    const std::string digits = pages::grouped(static_cast<std::int64_t>(std::abs(value)));
    return value < 0 ? "−" + digits : digits;
  }
  std::string text = fmt::format("{:.4g}", std::abs(value));
  if (std::abs(value) >= 1e3 && std::abs(value) < 1e15) text = pages::grouped(std::llround(std::abs(value)));
  return value < 0 ? "−" + text : text;
}

std::string_view verdict_name(Verdict verdict) {
  return verdict == Verdict::agrees ? "agrees" : verdict == Verdict::contradicts ? "contradicts" : "cannot tell";
}

std::string Finding::relation_name(Relation relation) {
  switch (relation) {
    case Relation::near:
      return "near";
    case Relation::at_most:
      return "at_most";
    case Relation::above:
      return "above";
    case Relation::shown:
      break;
  }
  return "shown";
}

Finding::Relation Finding::find_relation(std::string_view name) {
  for (const Relation relation : {Relation::near, Relation::at_most, Relation::above})
    if (name == relation_name(relation)) return relation;
  return Relation::shown;
}

std::optional<Verdict> Finding::verdict() const {
  const double low = ours - interval.value_or(0), high = ours + interval.value_or(0);
  const auto of = [](bool all, bool any) {
    return all ? Verdict::agrees : any ? Verdict::cannot_tell : Verdict::contradicts;
  };
  switch (relation) {
    case Relation::near:
      return of(std::max(std::abs(low - expected), std::abs(high - expected)) <= tolerance,
                low <= expected + tolerance && high >= expected - tolerance);
    case Relation::at_most:
      return of(high <= expected, low <= expected);
    case Relation::above:
      return of(low > expected, high > expected);
    case Relation::shown:
      break;
  }
  return std::nullopt;
}

std::optional<bool> Finding::agrees() const {
  const std::optional<Verdict> found = verdict();
  if (!found || *found == Verdict::cannot_tell) return std::nullopt;
  return *found == Verdict::agrees;
}

std::string Finding::expected_text() const {
  switch (relation) {
    case Relation::near:
      return number_for_readers(expected) + (tolerance > 0 ? " ± " + number_for_readers(tolerance) : "");
    case Relation::at_most:
      return "at most " + number_for_readers(expected);
    case Relation::above:
      return "above " + number_for_readers(expected);
    case Relation::shown:
      break;
  }
  return "–";
}

std::string Finding::whose_text(std::string_view possessive) const {
  if (relation == Relation::shown) return "–";
  switch (whose) {
    case Whose::printed:
      return fmt::format("{} number", possessive);
    case Whose::follows:
      return fmt::format("{} formulas", possessive);
    case Whose::direction:
      return fmt::format("{} direction", possessive);
    case Whose::ours:
      return std::string(bound_of_ours);
    case Whose::nobody:
      break;
  }
  return "–";
}

std::string Finding::ours_text() const {
  return number_for_readers(ours) + (interval ? " ± " + number_for_readers(*interval) : "");
}

namespace {

// P(T ≥ t) of one sided tests.
double one_sided(double t, double degrees) {
  const double both = compare::student_t_two_sided_p(t, degrees);
  return t > 0 ? both / 2 : 1 - both / 2;
}

}  // namespace

Finding of_draws(Finding finding, std::span<const double> values) {
  const Mean mean = mean_of({values.begin(), values.end()});
  finding.ours = mean.value;
  const auto degrees = static_cast<double>(values.size()) - 1;
  if (!compare::has_spread(values)) return finding;
  finding.interval = mean.error * compare::student_t_quantile(1 - compare::significance_level, degrees);
  const auto t = [&](double bound) { return (mean.value - bound) / mean.error; };
  switch (finding.relation) {
    case Finding::Relation::near:
      finding.p = std::max(one_sided(t(finding.expected - finding.tolerance), degrees),
                           one_sided(-t(finding.expected + finding.tolerance), degrees));
      break;
    case Finding::Relation::at_most:
    case Finding::Relation::above:
      finding.p = compare::student_t_two_sided_p(t(finding.expected), degrees);
      break;
    case Finding::Relation::shown:
      break;
  }
  return finding;
}

}  // namespace cogwheel::labs
