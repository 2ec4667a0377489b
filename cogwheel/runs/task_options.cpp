#include "cogwheel/runs/task_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::runs {
namespace {

std::string key_of(const std::string& name) { return "task." + name; }

[[noreturn]] void refuse_type(const std::string& name, std::string_view expected, const ConfigValue& got) {
  throw UsageError(expected_got(key_of(name), expected,
                                std::visit([](const auto& value) { return nlohmann::json(value).dump(); }, got)));
}

}  // namespace

const ConfigValue* TaskOptionReader::find(const std::string& name) const {
  const auto given = given_.values.find(name);
  return given == given_.values.end() ? nullptr : &given->second;
}

std::int64_t TaskOptionReader::whole(const std::string& name, std::int64_t otherwise,
                                     const Range<std::int64_t>& range) {
  std::int64_t value = otherwise;
  if (const ConfigValue* const given = find(name)) {
    const auto* const held = std::get_if<std::int64_t>(given);
    if (held == nullptr) refuse_type(name, "a whole number", *given);
    value = *held;
  }
  expect_within(key_of(name), value, range);
  read_.values[name] = value;
  return value;
}

std::int64_t TaskOptionReader::later_whole(const std::string& name, std::int64_t otherwise,
                                           const Range<std::int64_t>& range) {
  later_.insert(name);
  return find(name) == nullptr ? otherwise : whole(name, otherwise, range);
}

double TaskOptionReader::later_number(const std::string& name, double otherwise, const Range<double>& range) {
  later_.insert(name);
  return find(name) == nullptr ? otherwise : number(name, otherwise, range);
}

std::string TaskOptionReader::later_word(const std::string& name, const std::string& otherwise,
                                         const std::vector<std::string>& known) {
  later_.insert(name);
  return find(name) == nullptr ? otherwise : word(name, otherwise, known);
}

std::string TaskOptionReader::later_path(const std::string& name) {
  later_.insert(name);
  return find(name) == nullptr ? std::string() : path(name);
}

std::string TaskOptionReader::later_word(const std::string& name, const std::vector<std::string>& known) {
  later_.insert(name);
  return find(name) == nullptr ? std::string() : word(name, {}, known);
}

bool TaskOptionReader::later_yes(const std::string& name) {
  later_.insert(name);
  return find(name) != nullptr && yes(name, false);
}

std::string TaskOptionReader::later_text(const std::string& name) {
  later_.insert(name);
  const ConfigValue* const given = find(name);
  if (given == nullptr) return {};
  const auto* const held = std::get_if<std::string>(given);
  if (held == nullptr) refuse_type(name, "text", *given);
  read_.values[name] = *held;
  return *held;
}

double TaskOptionReader::number(const std::string& name, double otherwise, const Range<double>& range) {
  double value = otherwise;
  if (const ConfigValue* const given = find(name)) {
    const auto* const held = std::get_if<double>(given);
    const auto* const whole = std::get_if<std::int64_t>(given);
    if (held == nullptr && whole == nullptr) refuse_type(name, "a number", *given);
    value = held != nullptr ? *held : static_cast<double>(*whole);
  }
  expect_within(key_of(name), value, range);
  read_.values[name] = value;
  return value;
}

std::string TaskOptionReader::word(const std::string& name, const std::string& otherwise,
                                   const std::vector<std::string>& known) {
  std::string value = otherwise;
  if (const ConfigValue* const given = find(name)) {
    const auto* const held = std::get_if<std::string>(given);
    if (held == nullptr) refuse_type(name, "a name", *given);
    value = *held;
  }
  if (std::find(known.begin(), known.end(), value) == known.end())
    throw UsageError(expected_got(key_of(name), expected_names(value, known), value));
  read_.values[name] = value;
  return value;
}

bool TaskOptionReader::yes(const std::string& name, bool otherwise) {
  bool value = otherwise;
  if (const ConfigValue* const given = find(name)) {
    const auto* const held = std::get_if<bool>(given);
    if (held == nullptr) refuse_type(name, "true or false", *given);
    value = *held;
  }
  read_.values[name] = value;
  return value;
}

std::string TaskOptionReader::path(const std::string& name) {
  std::string value;
  if (const ConfigValue* const given = find(name)) {
    const auto* const held = std::get_if<std::string>(given);
    if (held == nullptr) refuse_type(name, "a path", *given);
    value = held->empty() ? "" : recorded_path(*held, key_of(name));
  }
  read_.values[name] = value;
  return value;
}

TaskOptions TaskOptionReader::finish() const {
  std::set<std::string> known = later_;
  for (const auto& [name, value] : read_.values) known.insert(name);
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto& [name, value] : given_.values)
    if (!read_.values.contains(name))
      throw UsageError(expected_got(
          "task: key", names.empty() ? "none but name, for " + given_.name : expected_names(name, names), name));
  return {given_.name, read_.values};
}

std::int64_t given_vocabulary(const RunConfig& config, const Range<std::int64_t>& range) {
  const std::int64_t given = common(config.model).vocabulary_or_none();
  expect_within("model.vocabulary", given, range);
  return given;
}

void set_vocabulary(RunConfig& config, std::int64_t vocabulary, const std::string& why) {
  std::int64_t* const held = common(config.model).vocabulary;
  if (held == nullptr) return;
  std::int64_t& given = *held;
  if (given != 0 && given != vocabulary)
    throw UsageError(expected_got("model.vocabulary", std::to_string(vocabulary) + why, std::to_string(given)));
  given = vocabulary;
}

std::string recorded_path(const std::filesystem::path& path, std::string_view what) {
  std::string text = std::filesystem::absolute(path).lexically_normal().string();
  if (const std::size_t offset = find_non_text(text); offset != std::string::npos)
    throw UsageError(expected_got(what, "a path in UTF-8", code_point_text(text, offset) + " of it"));
  return text;
}

void expect_recorded_data(const RunConfig& config, const std::string& name, const std::string& sha256) {
  if (!config.data.sha256.empty() && sha256 != config.data.sha256)
    throw Error(expected_got("data.sha256 of " + name, config.data.sha256,
                             sha256 + ": other data, or another part of them held out"));
}

}  // namespace cogwheel::runs
