#include "cogwheel/runs/configuration/strict_table.h"

#include <cmath>
#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::runs {
namespace {

std::string type_text(const toml::node& node) {
  std::ostringstream text;
  text << "a value of type " << node.type();
  return text.str();
}

template <class Value>
std::optional<Value> value_of(const toml::node* node, const std::string& what, const char* expected) {
  if (node == nullptr) return std::nullopt;
  const auto value = node->value_exact<Value>();
  if (!value) throw UsageError(expected_got(what, expected, type_text(*node)));
  return value;
}

std::optional<double> number_of(const toml::node* node, const std::string& what) {
  if (node != nullptr && node->is_integer()) return static_cast<double>(node->as_integer()->get());
  return value_of<double>(node, what, "a number");
}

}  // namespace

const toml::node* StrictTable::find(std::string_view key) {
  asked_.emplace(key);
  return table_.get(key);
}

std::optional<std::string> StrictTable::text(std::string_view key) {
  return value_of<std::string>(find(key), what(key), "a string");
}

std::string StrictTable::required_text(std::string_view key) {
  const auto found = text(key);
  if (!found || found->empty()) throw UsageError(expected_got(what(key), "a text", "none"));
  return *found;
}

std::optional<double> StrictTable::number(std::string_view key, const Range<double>& range) {
  const std::optional<double> found = number_of(find(key), what(key));
  if (found && !std::isfinite(*found))
    throw UsageError(expected_got(what(key), "a finite number", number_text(*found)));
  if (found) expect_within(what(key), *found, range);
  return found;
}

std::optional<std::int64_t> StrictTable::whole(std::string_view key, const Range<std::int64_t>& range) {
  const auto found = value_of<std::int64_t>(find(key), what(key), "a whole number");
  if (found) expect_within(what(key), *found, range);
  return found;
}

std::optional<bool> StrictTable::yes(std::string_view key) {
  return value_of<bool>(find(key), what(key), "true or false");
}

std::vector<std::string> StrictTable::texts(std::string_view key) {
  std::vector<std::string> found;
  const toml::node* const node = find(key);
  if (node == nullptr) return found;
  if (!node->is_array()) throw UsageError(expected_got(what(key), "an array of strings", type_text(*node)));
  for (const toml::node& each : *node->as_array())
    found.push_back(*value_of<std::string>(&each, what(key), "an array of strings"));
  return found;
}

std::vector<double> StrictTable::numbers(std::string_view key) {
  std::vector<double> found;
  const toml::node* const node = find(key);
  if (node == nullptr) return found;
  if (!node->is_array()) throw UsageError(expected_got(what(key), "an array of numbers", type_text(*node)));
  for (const toml::node& each : *node->as_array()) found.push_back(*number_of(&each, what(key)));
  return found;
}

const toml::table* StrictTable::table(std::string_view key) {
  const toml::node* const node = find(key);
  if (node != nullptr && !node->is_table()) throw UsageError(expected_got(what(key), "a table", type_text(*node)));
  return node == nullptr ? nullptr : node->as_table();
}

std::vector<const toml::table*> StrictTable::tables(std::string_view key) {
  std::vector<const toml::table*> found;
  const toml::node* const node = find(key);
  if (node == nullptr) return found;
  if (!node->is_array()) throw UsageError(expected_got(what(key), "an array of tables", type_text(*node)));
  for (const toml::node& each : *node->as_array()) {
    if (!each.is_table()) throw UsageError(expected_got(what(key), "an array of tables", type_text(each)));
    found.push_back(each.as_table());
  }
  return found;
}

void StrictTable::finish() const {
  for (const auto& [key, node] : table_)
    if (!asked_.contains(std::string(key.str())))
      throw UsageError(
          expected_got(what_ + ": key", expected_names(key.str(), {asked_.begin(), asked_.end()}), key.str()));
}

}  // namespace cogwheel::runs
