#include "cogwheel/interchange/foreign_config.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::interchange {

nlohmann::json json_object(const std::filesystem::path& path) {
  auto json = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(expected_got(path.string(), "a JSON object", "something else"));
  return json;
}

ForeignConfig::ForeignConfig(std::filesystem::path path) : path_(std::move(path)), json_(json_object(path_)) {}

ForeignConfig::ForeignConfig(std::filesystem::path path, std::string prefix, nlohmann::json json)
    : path_(std::move(path)), prefix_(std::move(prefix)), json_(std::move(json)) {}

ForeignConfig ForeignConfig::part(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_object()) refuse(key, "an object", value == nullptr ? "none" : value->dump());
  return {path_, prefix_ + key + ".", *value};
}

void ForeignConfig::refuse(const std::string& key, const std::string& expected, const std::string& got) const {
  throw Error(expected_got(path_.string() + ": " + prefix_ + key, expected, got));
}

const nlohmann::json* ForeignConfig::find(const std::string& key) {
  read_.insert(key);
  return has(key) ? &json_[key] : nullptr;
}

std::int64_t ForeignConfig::whole(const std::string& key, std::int64_t otherwise, const Range<std::int64_t>& range) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  // Also a whole number that 64 bits do not hold.
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || !range.holds(value->get<std::int64_t>())) refuse(key, "a whole number, " + range.text(), value->dump());
  return value->get<std::int64_t>();
}

std::int64_t ForeignConfig::whole(const std::string& key, const Range<std::int64_t>& range) {
  if (!has(key)) refuse(key, "a whole number, " + range.text(), "none");
  return whole(key, 0, range);
}

double ForeignConfig::number(const std::string& key, double otherwise, const Range<double>& range) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || !range.holds(value->get<double>()))
    refuse(key, "a number, " + range.text(), value->dump());
  return value->get<double>();
}

double ForeignConfig::number(const std::string& key, const Range<double>& range) {
  if (!has(key)) refuse(key, "a number, " + range.text(), "none");
  return number(key, 0, range);
}

std::string ForeignConfig::known_word(const std::string& key, const nlohmann::json& value,
                                      const std::vector<std::string>& known) const {
  const std::string word = value.is_string() ? value.get<std::string>() : "";
  if (!value.is_string() || std::find(known.begin(), known.end(), word) == known.end())
    refuse(key, expected_names(word, known), value.dump());
  return word;
}

std::string ForeignConfig::word(const std::string& key, const std::string& otherwise,
                                const std::vector<std::string>& known) {
  const nlohmann::json* value = find(key);
  return value == nullptr ? otherwise : known_word(key, *value, known);
}

std::string ForeignConfig::text(const std::string& key, const std::string& otherwise) {
  const nlohmann::json* value = find(key);
  if (value != nullptr && !value->is_string()) refuse(key, "a text", value->dump());
  return value == nullptr ? otherwise : value->get<std::string>();
}

std::vector<std::string> ForeignConfig::words(const std::string& key, const std::vector<std::string>& known) {
  const nlohmann::json* value = find(key);
  std::vector<std::string> words;
  if (value == nullptr) return words;
  if (!value->is_array()) refuse(key, "a list", value->dump());
  for (const nlohmann::json& each : *value) words.push_back(known_word(key, each, known));
  return words;
}

bool ForeignConfig::yes(const std::string& key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, "true or false", value->dump());
  return value->get<bool>();
}

std::string ForeignConfig::architecture() {
  const nlohmann::json* names = find("architectures");
  if (names == nullptr || !names->is_array() || names->size() != 1 || !names->front().is_string())
    refuse("architectures", "a list of one name", names == nullptr ? "none" : names->dump());
  return names->front().get<std::string>();
}

std::vector<std::string> ForeignConfig::class_names() {
  skip({"label2id"});
  const nlohmann::json* given = find("id2label");
  if (given == nullptr) return {};
  if (!given->is_object()) refuse("id2label", "an object of names", given->dump());
  std::vector<std::string> names(given->size());
  for (const auto& [key, name] : given->items()) {
    std::size_t index = 0;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (problem != std::errc() || end != key.data() + key.size() || std::to_string(index) != key ||
        index >= names.size() || !name.is_string())
      refuse("id2label", "names under the keys 0 to " + std::to_string(names.size() - 1),
             nlohmann::json(key).dump() + ": " + name.dump());
    names[index] = name.get<std::string>();
  }
  return names;
}

void ForeignConfig::expect(const std::string& key, const nlohmann::json& value) {
  const nlohmann::json* given = find(key);
  if (given != nullptr && *given != value) refuse(key, value.dump() + ", as the models here have it", given->dump());
}

void ForeignConfig::skip(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void ForeignConfig::finish() const {
  for (const auto& [key, value] : json_.items())
    if (!key.starts_with('_') && !read_.contains(key) && !value.is_null())
      throw Error(expected_got(path_.string(), "keys whose meaning is known here (remove it if it changes nothing)",
                               prefix_ + one_line(key) + ": " + value.dump()));
}

}  // namespace cogwheel::interchange
