// The parameters of a lab: numbers and lists of numbers, each with its range and what it means, stated once. Checks,
// messages, the record of a run and the table of its page follow.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"

namespace cogwheel {

struct LabParameter {
  enum class Kind { whole, real };

  std::string name;
  std::vector<double> values;  // whole numbers up to 2⁵³ are exact
  Range<double> range;         // of each value
  std::string meaning;
  Kind kind = Kind::whole;
  bool list = false;  // else there is one value

  std::string text() const;        // "0.5", "[250, 500]"
  std::string range_text() const;  // "1 to 100"
};

class LabParameters {
 public:
  LabParameters(std::vector<LabParameter> all) : all_(std::move(all)) {}  // NOLINT: a list where one is expected

  const std::vector<LabParameter>& all() const { return all_; }

  // `text` is a number, or numbers separated by commas, in brackets or without: for what a file and a command line
  // give. Throws UsageError that begins with `what`: for a name that is none, with the nearest ones; for a value that
  // is no number, of another kind, out of range, or a list where one number is meant.
  void set(std::string_view name, std::string_view text, std::string_view what);

  // The same of "name=value".
  void assign(std::string_view assignment, std::string_view what);

  bool has(std::string_view name) const;
  // Of parameters that exist.
  std::int64_t whole(std::string_view name) const;
  double number(std::string_view name) const;
  std::vector<std::int64_t> wholes(std::string_view name) const;
  const std::vector<double>& numbers(std::string_view name) const;
  // Throws UsageError unless each number of a list is above the one before.
  void expect_rising(std::string_view name) const;
  // Whether these parameters have the values of `other`.
  bool same(const LabParameters& other, const std::vector<std::string>& names) const;

 private:
  const LabParameter& find(std::string_view name) const;

  std::vector<LabParameter> all_;
};

}  // namespace cogwheel
