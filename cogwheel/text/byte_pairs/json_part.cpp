#include "cogwheel/text/byte_pairs/json_part.h"

#include "cogwheel/core/error.h"

namespace cogwheel::text {

void JsonPart::refuse(std::string_view expected, std::string_view got) const {
  throw Error(expected_got(what_, expected, got));
}

JsonPart JsonPart::at(const char* key) const {
  static const nlohmann::json none;
  const auto found = json_.is_object() ? json_.find(key) : json_.end();
  return {json_.is_object() && found != json_.end() ? *found : none, what_ + ": " + key};
}

std::string JsonPart::type() const {
  if (missing()) return "none";
  const JsonPart type = at("type");
  return type.json_.is_string() ? type.json_.get<std::string>() : "a part without type";
}

std::string JsonPart::shown() const {
  return missing() ? "none" : one_line(json_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void JsonPart::expect(const char* key, const nlohmann::json& value) const {
  if (const JsonPart part = at(key); !part.is(value)) part.refuse(value.dump(), part.shown());
}

void JsonPart::expect_if_there(const char* key, const nlohmann::json& value) const {
  if (!at(key).missing()) expect(key, value);
}

std::vector<JsonPart> JsonPart::each() const {
  if (!missing() && !json_.is_array()) refuse("a list", shown());
  std::vector<JsonPart> parts;
  for (const nlohmann::json& json : json_) parts.emplace_back(json, what_);
  return parts;
}

std::vector<JsonPart> JsonPart::steps(const char* list) const {
  if (missing()) return {};
  return type() == "Sequence" ? at(list).each() : std::vector<JsonPart>{*this};
}

const std::string& JsonPart::text() const {
  if (!json_.is_string()) refuse("text", shown());
  return json_.get_ref<const std::string&>();
}

}  // namespace cogwheel::text
