// Structs as JSON objects, written and read by one list of their fields. A struct in results_json.cpp declares
//
//   constexpr auto fields(const CurvePoint&) {
//     return std::tuple(field("step", &CurvePoint::step), field("train_loss", &CurvePoint::train_loss), …);
//   }
//
// and write_json and read_json then work for it, for lists of it and for structs that contain it. Keys are written in
// the order of the list.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel::runs {

using Json = nlohmann::ordered_json;

enum class FieldKind {
  required,      // but an optional value may be missing or null
  unless_empty,  // written only if not empty, a number only if not 0; where it is missing when read, the value is left
                 // unchanged
  written,       // never read, because it follows from the others
  inlined,       // several keys of the same object, named by the value: handled by write_keys and read_key
};

// `value` is a pointer to a member or, for a field that is only written, a function of the struct.
template <FieldKind Kind, class Value>
struct Field {
  const char* key;
  Value value;
};

template <class Value>
constexpr Field<FieldKind::required, Value> field(const char* key, Value value) {
  return {key, value};
}
template <class Value>
constexpr Field<FieldKind::unless_empty, Value> unless_empty(const char* key, Value value) {
  return {key, value};
}
template <class Value>
constexpr Field<FieldKind::written, Value> written(const char* key, Value value) {
  return {key, value};
}

template <class Value>
constexpr Field<FieldKind::inlined, Value> inlined(Value value) {
  return {"", value};
}

template <class Struct>
concept HasFields = requires(const Struct& value) {
  fields(value);
};

// Types other than numbers and text overload write_json and read_json in their namespace.

template <class Value>
requires std::is_arithmetic_v<Value> Json write_json(Value value) {
  return value;  // a value that is not finite is written as null
}

inline Json write_json(const std::string& text) { return text; }

template <class Value>
Json write_json(const std::optional<Value>& value) {
  return value ? write_json(*value) : Json(nullptr);
}

template <class Value>
Json write_json(const std::vector<Value>& values);

template <class Value>
bool is_empty(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>)
    return value == 0;
  else
    return value.empty();
}

template <HasFields Struct>
Json write_json(const Struct& value) {
  Json json = Json::object();
  const auto write = [&]<FieldKind Kind, class Member>(const Field<Kind, Member>& field) {
    const auto& member = std::invoke(field.value, value);
    if constexpr (Kind == FieldKind::inlined) {
      write_keys(member, json);
    } else {
      if constexpr (Kind == FieldKind::unless_empty)
        if (is_empty(member)) return;
      json[field.key] = write_json(member);
    }
  };
  std::apply([&](const auto&... field) { (write(field), ...); }, fields(value));
  return json;
}

template <class Value>
Json write_json(const std::vector<Value>& values) {
  Json json = Json::array();
  for (const Value& value : values) json.push_back(write_json(value));
  return json;
}

// How a message shows an unexpected value. A missing one is "discarded" in nlohmann's terms.
inline std::string kind_of(const Json& json) {
  return json.is_discarded() ? "nothing" : json.is_array() ? "an array" : json.is_object() ? "an object" : json.dump();
}

// Throws Error that names `key` unless `is`.
inline void expect_kind(const char* key, bool is, std::string_view expected, const Json& json) {
  if (!is) throw Error(expected_got(key, expected, kind_of(json)));
}

// `key` is the name in messages; elements of a list have that of the list.
inline void read_json(const Json& json, const char* key, std::string& text) {
  expect_kind(key, json.is_string(), "a text", json);
  text = json.get<std::string>();
}

inline void read_json(const Json& json, const char* key, bool& value) {
  expect_kind(key, json.is_boolean(), "true or false", json);
  value = json.get<bool>();
}

inline void read_json(const Json& json, const char* key, double& value) {
  expect_kind(key, json.is_number(), "a number", json);
  value = json.get<double>();
}

// nlohmann would convert 1.5 to 1, and wrap numbers that are too large.
inline void read_json(const Json& json, const char* key, std::int64_t& value) {
  const bool fits = !json.is_number_unsigned() || json.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  expect_kind(key, json.is_number_integer() && fits, "a whole number", json);
  value = json.get<std::int64_t>();
}

template <class Value>
void read_json(const Json& json, const char* key, std::optional<Value>& value) {
  if (json.is_null() || json.is_discarded())
    value.reset();
  else
    read_json(json, key, value.emplace());
}

template <class Value>
void read_json(const Json& json, const char* key, std::vector<Value>& values);

template <HasFields Struct>
bool is_field(const std::string& name, const Struct& value) {
  return std::apply([&](const auto&... field) { return ((name == field.key) || ...); }, fields(value));
}

// Unknown keys are skipped, unless the struct accepts them all.
template <HasFields Struct>
void read_json(const Json& json, const char* key, Struct& value) {
  expect_kind(key, json.is_object(), "an object", json);
  const auto read = [&]<FieldKind Kind, class Member>(const Field<Kind, Member>& field) {
    if constexpr (Kind == FieldKind::inlined) {
      for (const auto& [name, element] : json.items())
        if (!is_field(name, value)) read_key(element, name, value.*field.value);
    } else if constexpr (Kind != FieldKind::written) {
      const auto found = json.find(field.key);
      if (found != json.end())
        read_json(*found, field.key, value.*field.value);
      else if (Kind == FieldKind::required)
        read_json(Json(Json::value_t::discarded), field.key, value.*field.value);
    }
  };
  std::apply([&](const auto&... field) { (read(field), ...); }, fields(value));
}

template <class Value>
void read_json(const Json& json, const char* key, std::vector<Value>& values) {
  expect_kind(key, json.is_array(), "an array", json);
  values.clear();
  for (const Json& element : json) read_json(element, key, values.emplace_back());
}

}  // namespace cogwheel::runs
