#include "cogwheel/serve/view_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::serve {
namespace {

std::string kind_of(const nlohmann::json& value) { return value.is_string() ? "text" : std::string(value.type_name()); }

std::string text_of(const nlohmann::json& value, const std::string& key) {
  if (!value.is_string()) throw UsageError(expected_got(key, "text", kind_of(value)));
  return value.get<std::string>();
}

template <class Choice>
Choice choice_of(const nlohmann::json& value, const std::string& key, const std::vector<std::string>& names) {
  const std::string name = text_of(value, key);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw UsageError(expected_got(key, expected_names(name, names), name));
  return static_cast<Choice>(found - names.begin());
}

}  // namespace

std::vector<std::string> shown_values_names() { return {"weights", "weighted", "scores"}; }
std::vector<std::string> compared_names() { return {"none", "run", "text", "edits"}; }

ViewRequest parse_view_request(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw UsageError(expected_got("request", "a JSON object", "something else"));
  ViewRequest request;
  for (const auto& [key, value] : json.items()) {
    if (key == "run") {
      if (!value.is_number_unsigned())
        throw UsageError(expected_got(key, "0 or 1", value.is_number() ? value.dump() : kind_of(value)));
      request.run = value.get<std::size_t>();
    } else if (key == "text") {
      request.text = text_of(value, key);
    } else if (key == "second_text") {
      request.second_text = text_of(value, key);
    } else if (key == "values") {
      request.values = choice_of<ShownValues>(value, key, shown_values_names());
    } else if (key == "compared") {
      request.compared = choice_of<Compared>(value, key, compared_names());
    } else if (key == "edits") {
      if (!value.is_array()) throw UsageError(expected_got(key, "an array of texts", kind_of(value)));
      for (const nlohmann::json& edit : value) request.edits.push_back(text_of(edit, key));
    } else if (key == "answer") {
      request.answer = text_of(value, key);
    } else if (key == "foil") {
      request.foil = text_of(value, key);
    } else if (key == "head") {
      request.head = text_of(value, key);
    } else {
      throw UsageError(expected_got(
          "request",
          expected_names(key, {"run", "text", "second_text", "values", "compared", "edits", "answer", "foil", "head"}),
          key));
    }
  }
  return request;
}

}  // namespace cogwheel::serve
