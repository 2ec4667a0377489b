// Structs as JSON objects by one list of their fields, which both directions follow. A struct of results_json.cpp says
//
//   constexpr auto fields(const CurvePoint&) {
//     return std::tuple(field("step", &CurvePoint::step), field("train_loss", &CurvePoint::train_loss), …);
//   }
//
// and write_json and read_json serve it, lists of it and structs that hold it. Keys are written in the order of the
// list.
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

namespace cogwheel {

using Json = nlohmann::ordered_json;

enum class FieldKind {
  required,      // but an optional one may be missing, as it may be null
  later,         // may be missing when read, as in files from before there was one: then it stays as it is
  unless_empty,  // the same, and written only where there is something
  written,       // never read: what follows from the rest
  inlined,       // keys of the struct's own object, by names that the value has: write_keys and read_key serve it
};

// `value` is a pointer to a member, or of a field that is only written a function of the struct.
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
constexpr Field<FieldKind::later, Value> later(const char* key, Value value) {
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

// Whoever holds more than numbers and text overloads write_json and read_json beside the type.

template <class Value>
requires std::is_arithmetic_v<Value> Json write_json(Value value) {
  return value;  // what is not finite is written as null
}

inline Json write_json(const std::string& text) { return text; }

template <class Value>
Json write_json(const std::optional<Value>& value) {
  return value ? write_json(*value) : Json(nullptr);
}

template <class Value>
Json write_json(const std::vector<Value>& values);

template <HasFields Struct>
Json write_json(const Struct& value) {
  Json json = Json::object();
  const auto write = [&]<FieldKind Kind, class Member>(const Field<Kind, Member>& field) {
    const auto& member = std::invoke(field.value, value);
    if constexpr (Kind == FieldKind::inlined) {
      write_keys(member, json);
    } else {
      if constexpr (Kind == FieldKind::unless_empty)
        if (member.empty()) return;
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

// What a message says of a value that was not expected. What is missing is nlohmann's "discarded".
inline std::string kind_of(const Json& json) {
  return json.is_discarded() ? "nothing" : json.is_array() ? "an array" : json.is_object() ? "an object" : json.dump();
}

// Throws Error naming `key` where `is` does not hold.
inline void expect_kind(const char* key, bool is, std::string_view expected, const Json& json) {
  if (!is) throw Error(expected_got(key, expected, kind_of(json)));
}

// `key` is what a message names; an element of a list has the list's.
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

// nlohmann would take 1.5 for 1, and wrap what is too large.
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

// Keys that the struct does not have are skipped, unless it takes them all.
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

}  // namespace cogwheel
