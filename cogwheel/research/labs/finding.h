// A number that a lab found, beside what somebody expects of it.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/statistics/claim_statistics.h"

namespace cogwheel::labs {

using compare::Verdict;

// What is expected, who expects it, and the number found.
struct Finding {
  enum class Relation {
    near,     // within `tolerance` of what is expected; how near is always our choice
    at_most,  // what is expected is a bound
    above,    // larger than this
    shown,    // nothing is expected of these parameters
  };
  enum class Whose {
    printed,    // the source has the number
    follows,    // from a formula of the source, or from what it cites
    direction,  // the source says which of two is larger, and not by how much
    ours,       // a threshold of our own, where the source has words alone, or a formula that it does not have
    nobody,     // of what is shown
  };

  std::string what;
  Whose whose = Whose::nobody;
  Relation relation = Relation::near;
  double expected = 0, tolerance = 0;
  double ours = 0;
  std::string remark = {};          // why the two differ, or what to mind
  std::vector<double> values = {};  // of several draws or trainings, whose mean is `ours`
  // What these values tell, by the test of the claim: "near" by two one-sided ones. Set by decide_findings, where they
  // have a spread; of what is shown, the interval alone.
  std::optional<compare::ClaimResult> tested = {};

  // "near", …, as files have it; and back, of another name `shown`.
  static std::string relation_name(Relation relation);
  static Relation find_relation(std::string_view name);

  // Absent where there is nothing to agree with. Of values that were tested, what the test says; else the number
  // itself agrees or does not. One that is not finite agrees with nothing.
  std::optional<Verdict> verdict() const;
  // Whether it agrees, where there is something to agree with and the numbers can tell.
  std::optional<bool> agrees() const;
  std::string expected_text() const;  // "0.138 ± 0.01", "at most 0.05", "above 0"; "–" of what is shown
  // "the lecture's number", … of the source that is called so; "–" of nobody.
  std::string whose_text(std::string_view possessive) const;
  static constexpr std::string_view bound_of_ours = "a bound of ours";  // which it says of no source
  std::string ours_text() const;                                        // with its interval
  std::string_view verdict_word() const;  // "yes", "no", "cannot tell"; "–" where there is nothing to agree with
  // "p 0.2; 3 draws show a difference of 0.02; the one found takes 14"; empty of what was not tested.
  std::string evidence_text() const;
};

// A finding of several draws: `ours` is the mean of the values, which must not be empty.
Finding of_draws(Finding finding, std::vector<double> values);

// Tests all findings of a page together, those of draws that have a spread (compare/statistics/claim_statistics.h):
// that any of their verdicts but "cannot tell" is wrong has a probability of at most compare::significance_level.
void decide_findings(std::vector<Finding>& findings);

// A number for a reader: whole ones in groups of three digits, others with four digits.
std::string number_for_readers(double value);

}  // namespace cogwheel::labs
