// A configuration as JSON, {"section.key": value, …}: how checkpoints and comparisons record what they are of.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cogwheel/configuration/run_config.h"

namespace cogwheel {

nlohmann::ordered_json to_json(const RunConfig& config);

// Keys that are left out keep their defaults. Throws Error naming `what` and the key for what cannot be.
RunConfig config_from_json(const nlohmann::ordered_json& json, std::string_view what);

struct ConfigDifference {
  std::string key, expected, got;  // values as in TOML
};

// The first key, in the order of the table, that tells two records apart; a key that one of them lacks counts as its
// default. Names and places do not: `name`, what says where the text lies, whose content data.sha256 holds, and the
// device. Of keys that begin with `section` alone, such as "model.".
std::optional<ConfigDifference> first_difference(const nlohmann::ordered_json& expected,
                                                 const nlohmann::ordered_json& got, std::string_view section = "");

// Throws Error naming `what` and the key that differs.
void expect_same(const RunConfig& expected, const nlohmann::ordered_json& got, std::string_view what,
                 std::string_view section = "");

}  // namespace cogwheel
