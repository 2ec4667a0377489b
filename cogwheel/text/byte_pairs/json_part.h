// A part of a JSON file, with its name for messages.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::text {

class JsonPart {
 public:
  JsonPart(const nlohmann::json& json, std::string what) : json_(json), what_(std::move(what)) {}

  // Throws Error: "<name of the part>: expected …, got …".
  [[noreturn]] void refuse(std::string_view expected, std::string_view got) const;
  // null where it is missing.
  JsonPart at(const char* key) const;
  bool missing() const { return json_.is_null(); }
  bool is(const nlohmann::json& value) const { return json_ == value; }
  const nlohmann::json& json() const { return json_; }
  const std::string& what() const { return what_; }
  // The kind of a part; "none" where there is no part.
  std::string type() const;
  // In one line; "none" where there is no part.
  std::string shown() const;
  void expect(const char* key, const nlohmann::json& value) const;
  // The same, but that it may be missing.
  void expect_if_there(const char* key, const nlohmann::json& value) const;
  // The values of a list; none where it is missing.
  std::vector<JsonPart> each() const;
  // The parts of a sequence under the key `list`, or the one part; none where there is none.
  std::vector<JsonPart> steps(const char* list) const;
  const std::string& text() const;

 private:
  const nlohmann::json& json_;
  std::string what_;
};

}  // namespace cogwheel::text
