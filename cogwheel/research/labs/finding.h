// A number that a lab found, beside what somebody expects of it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cogwheel/research/labs/verdict.h"

namespace cogwheel::labs {

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
  std::string remark = {};  // why the two differ, or what to mind
  // Of a number that several draws give, whose mean is `ours`: half the width of its 95 % t interval, and the p-value
  // of the test of what is expected, two one-sided ones where it is near.
  std::optional<double> interval = {}, p = {};

  // "near", …, as files have it; and back, of another name `shown`.
  static std::string relation_name(Relation relation);
  static Relation find_relation(std::string_view name);

  // Absent where there is nothing to agree with. With an interval: whether all of it agrees, none of it, or a part,
  // which cannot tell. A number that is not finite agrees with none.
  std::optional<Verdict> verdict() const;
  // Whether it agrees, where there is something to agree with and the numbers can tell.
  std::optional<bool> agrees() const;
  std::string expected_text() const;  // "0.138 ± 0.01", "at most 0.05", "above 0"; "–" of what is shown
  // "the lecture's number", … of the source that is called so; "–" of nobody.
  std::string whose_text(std::string_view possessive) const;
  static constexpr std::string_view bound_of_ours = "a bound of ours";  // which it says of no source
  std::string ours_text() const;                                        // with its interval
};

// A finding of several draws: `ours`, interval and p follow from the values, which must not be empty. One draw, or
// draws that are all equal, have neither interval nor p.
Finding of_draws(Finding finding, std::span<const double> values);

// A number for a reader: whole ones in groups of three digits, others with four digits.
std::string number_for_readers(double value);

}  // namespace cogwheel::labs
