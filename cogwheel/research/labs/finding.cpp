#include "cogwheel/research/labs/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "cogwheel/compare/statistics/paired_statistics.h"
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
  if (relation == Relation::shown) return std::nullopt;
  if (tested) return tested->verdict;
  const bool holds = relation == Relation::near      ? std::abs(ours - expected) <= tolerance
                     : relation == Relation::at_most ? ours <= expected
                                                     : ours > expected;
  return holds ? Verdict::agrees : Verdict::contradicts;
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
  return number_for_readers(ours) + (tested && tested->interval ? " ± " + number_for_readers(*tested->interval) : "");
}

namespace {

using compare::TestedClaim;

// Of "near" the values are taken less what is expected, so that its tolerance is a margin around 0.
TestedClaim::Relation claim_relation(Finding::Relation relation) {
  return relation == Finding::Relation::near      ? TestedClaim::Relation::equal
         : relation == Finding::Relation::at_most ? TestedClaim::Relation::below
                                                  : TestedClaim::Relation::above;
}

TestedClaim claim_of(const Finding& finding) {
  TestedClaim claim{.relation = claim_relation(finding.relation), .bound = finding.expected, .values = finding.values};
  if (finding.relation != Finding::Relation::near) return claim;
  claim.bound = finding.tolerance;
  for (double& value : claim.values) value -= finding.expected;
  return claim;
}

}  // namespace

std::string_view Finding::verdict_word() const {
  const std::optional<Verdict> found = verdict();
  if (!found) return "–";
  return *found == Verdict::agrees ? "yes" : *found == Verdict::contradicts ? "no" : compare::verdict_name(*found);
}

std::string Finding::evidence_text() const {
  if (!tested || !tested->p_adjusted) return "";
  std::string text = fmt::format("p {:.2g}", *tested->p_adjusted);
  if (tested->visible)
    text += "; " + compare::visible_text(claim_relation(relation), std::ssize(values), *tested, "draws");
  return text;
}

Finding of_draws(Finding finding, std::vector<double> values) {
  finding.ours = mean_of(values).value;
  finding.values = std::move(values);
  return finding;
}

void decide_findings(std::vector<Finding>& findings) {
  std::vector<TestedClaim> claims;
  std::vector<Finding*> of_claims;
  for (Finding& finding : findings) {
    TestedClaim claim = claim_of(finding);
    if (!std::isfinite(finding.ours) || !compare::has_spread(claim.values)) continue;
    if (finding.relation == Finding::Relation::shown) {
      finding.tested = {.mean = finding.ours,
                        .interval = compare::estimate_mean(finding.values).interval,
                        .confidence = 1 - compare::significance_level};
      continue;
    }
    claims.push_back(std::move(claim)), of_claims.push_back(&finding);
  }
  const std::vector<compare::ClaimResult> results = compare::decide_claims(claims);
  for (std::size_t index = 0; index < results.size(); ++index) of_claims[index]->tested = results[index];
}

}  // namespace cogwheel::labs
