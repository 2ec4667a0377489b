// Reads a table of TOML whose keys are all known.
#pragma once
#include <toml++/toml.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"

namespace cogwheel::runs {

inline constexpr Range<double> finite_numbers{.min = std::numeric_limits<double>::lowest(),
                                              .max = std::numeric_limits<double>::max()};
inline constexpr Range<std::int64_t> whole_numbers{.min = std::numeric_limits<std::int64_t>::min(),
                                                   .max = std::numeric_limits<std::int64_t>::max()};

// Each reader gives what a key has, or nothing where it is missing, and throws UsageError that names the key where it
// is of another type or outside its range. A required one throws where it is missing.
class StrictTable {
 public:
  StrictTable(const toml::table& table, std::string what) : table_(table), what_(std::move(what)) {}

  std::optional<std::string> text(std::string_view key);
  std::string required_text(std::string_view key);
  std::optional<double> number(std::string_view key, const Range<double>& range = finite_numbers);
  std::optional<std::int64_t> whole(std::string_view key, const Range<std::int64_t>& range = whole_numbers);
  std::optional<bool> yes(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  // Some of which may be nan.
  std::vector<double> numbers(std::string_view key);
  const toml::table* table(std::string_view key);
  std::vector<const toml::table*> tables(std::string_view key);
  bool has(std::string_view key) const { return table_.contains(key); }

  // Throws UsageError, with the nearest names, for a key that nobody asked for.
  void finish() const;
  const std::string& what() const { return what_; }
  std::string what(std::string_view key) const { return what_ + ": " + std::string(key); }

 private:
  const toml::node* find(std::string_view key);

  const toml::table& table_;
  std::string what_;
  std::set<std::string> asked_ = {};
};

}  // namespace cogwheel::runs
