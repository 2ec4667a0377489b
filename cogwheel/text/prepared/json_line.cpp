#include "cogwheel/text/prepared/json_line.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {

static_assert(JsonLineReader::padding >= simdjson::SIMDJSON_PADDING);

struct JsonLineReader::Parser {
  simdjson::dom::parser dom;
  std::string text;  // of a line that simdjson does not read
};

JsonLineReader::JsonLineReader() : parser_(std::make_unique<Parser>()) {}
JsonLineReader::~JsonLineReader() = default;

namespace {

std::string expected_field(const std::string& name) { return "an object with the text \"" + name + "\""; }

std::string kind_of(simdjson::dom::element_type type) {
  using enum simdjson::dom::element_type;
  switch (type) {
    case ARRAY:
      return "an array";
    case OBJECT:
      return "an object";
    case STRING:
      return "a text";
    case BOOL:
      return "true or false";
    case NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

}  // namespace

JsonLineReader::Field JsonLineReader::field(std::string_view line, const std::string& name, InvalidUtf8 policy,
                                            const std::string& what) {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(expected_got(what, expected, got));
  };
  Field field;
  const auto change = [&](std::string changed) {
    changed_ = std::move(changed);
    line = changed_;
    changed_.resize(line.size() + padding);
    line = std::string_view(changed_).substr(0, changed_.size() - padding);
    field.replaced = true;
  };
  simdjson::dom::element root;
  const auto parse = [&] { return parser_->dom.parse(line.data(), line.size(), false).get(root); };
  simdjson::error_code problem = parse();
  if (problem == simdjson::UTF8_ERROR) {
    const std::size_t offset = find_invalid_utf8(line);
    if (policy == InvalidUtf8::refuse) refuse("UTF-8", code_point_text(line, offset));
    if (policy == InvalidUtf8::drop) return {.dropped = true};
    change(with_invalid_utf8_replaced(line));
    problem = parse();
  }
  if (problem == simdjson::STRING_ERROR) {
    if (std::string whole = with_lone_surrogates_replaced(line); whole != line) {
      if (policy == InvalidUtf8::refuse) refuse("UTF-8", "half of a surrogate pair, which is no character");
      if (policy == InvalidUtf8::drop) return {.dropped = true};
      change(std::move(whole));
      problem = parse();
    }
  }
  // simdjson takes no whole number beyond 64 bits, which JSON allows and other fields may have.
  if (problem == simdjson::NUMBER_ERROR) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) refuse(expected_field(name), "broken JSON: a number that is none");
    const auto found = json.is_object() ? json.find(name) : json.end();
    if (found == json.end()) refuse(expected_field(name), json.is_object() ? "none of that name" : "no object");
    if (!found->is_string()) refuse(expected_field(name), "another kind of value of that name");
    parser_->text = found->get<std::string>();
    field.text = parser_->text;
    return field;
  }
  if (problem != simdjson::SUCCESS)
    refuse(expected_field(name), std::string("broken JSON: ") + one_line(simdjson::error_message(problem)));
  simdjson::dom::object object;
  if (root.get_object().get(object) != simdjson::SUCCESS) refuse(expected_field(name), kind_of(root.type()));
  simdjson::dom::element value;
  if (object.at_key(name).get(value) != simdjson::SUCCESS) refuse(expected_field(name), "none of that name");
  if (value.get_string().get(field.text) != simdjson::SUCCESS) refuse(expected_field(name), kind_of(value.type()));
  return field;
}

}  // namespace cogwheel::text
