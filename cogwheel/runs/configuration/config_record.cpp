#include "cogwheel/runs/configuration/config_record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/config_table.h"

namespace cogwheel::runs {
namespace {

using Json = nlohmann::ordered_json;

// What may differ between two runs that are one. Numbers depend on the device; a checkpoint says which it was.
constexpr std::array<std::string_view, 12> places = {"name",
                                                     "data.text",
                                                     "data.corpus",
                                                     "data.byte_limit",
                                                     "training.device",
                                                     "task.source",
                                                     "task.target",
                                                     "task.strokes",
                                                     "task.held_out_source",
                                                     "task.held_out_target",
                                                     "task.test_source",
                                                     "task.test_target"};

bool is_place(std::string_view key) { return std::find(places.begin(), places.end(), key) != places.end(); }

}  // namespace

Json to_json(const RunConfig& config) {
  RunConfig copy = config;
  Json json = Json::object();
  for (const auto& [key, slot, unused] : config_fields(copy))
    std::visit(
        [&json, name = key](const auto& value) {
          using Slot = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<Slot, ConfigValue*>)
            std::visit([&](const auto& held) { json[name] = held; }, *value);
          else if constexpr (!std::is_same_v<Slot, NamesOtherKeys>)
            json[name] = *value;
        },
        slot);
  return json;
}

RunConfig config_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) throw Error(expected_got(what, "an object of keys and values", json.dump()));
  // JSON's strings, numbers and arrays are valid TOML too, as are names with dots.
  std::string toml;
  for (const auto& [key, value] : json.items()) {
    if (key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos)
      throw Error(expected_got(what, "keys of a configuration", Json(key).dump()));
    if (value.is_null() || value.is_object())
      throw Error(
          expected_got(std::string(what) + ": " + key, "a text, a number, true or false, or texts", value.dump()));
    toml += key + " = " + value.dump() + "\n";
  }
  try {
    return parse_config(toml, what);
  } catch (const UsageError& error) {
    // The user did not type this text, so an invalid value is reported by its key alone.
    const std::string message = error.what();
    throw Error(message.starts_with(what) ? message : std::string(what) + ": " + message);
  }
}

std::optional<ConfigDifference> first_difference(const Json& expected, const Json& got, std::string_view section) {
  const auto text = [](const Json& value) { return value.is_null() ? "nothing" : value.dump(); };
  for (const Json* record : {&expected, &got})
    for (const auto& [key, unused] : record->items()) {
      const Json first = expected.value(key, Json()), second = got.value(key, Json());
      if (!is_place(key) && key.starts_with(section) && first != second)
        return ConfigDifference{key, text(first), text(second)};
    }
  return std::nullopt;
}

void expect_same(const RunConfig& expected, const Json& got, std::string_view what, std::string_view section,
                 const std::set<std::string>& may_differ) {
  if (!got.is_object()) throw Error(expected_got(what, "an object of keys and values", got.dump()));
  RunConfig untouched;
  untouched.task.name = expected.task.name;
  untouched.model = model_of_task(expected.task);
  const Json defaults = to_json(untouched);
  Json mine = to_json(expected), recorded = got;
  for (const auto& [key, value] : defaults.items())
    if (!recorded.contains(key) && mine.contains(key)) recorded[key] = value;
  for (const std::string& key : may_differ) mine.erase(key), recorded.erase(key);
  if (const auto difference = first_difference(mine, recorded, section))
    throw Error(expected_got(std::string(what) + ": " + difference->key, difference->expected, difference->got));
}

}  // namespace cogwheel::runs
