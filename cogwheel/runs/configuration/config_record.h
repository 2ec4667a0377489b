// A configuration as JSON, {"section.key": value, …}, as checkpoints and comparisons record it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::runs {

nlohmann::ordered_json to_json(const RunConfig& config);

// Missing keys keep their defaults. Throws Error that names `what` and the first invalid key.
RunConfig config_from_json(const nlohmann::ordered_json& json, std::string_view what);

struct ConfigDifference {
  std::string key, expected, got;  // values as in TOML
};

// The first key, in the order of the table, in which two whole records differ. Names and places are not compared:
// `name`, where the text lies, whose content data.sha256 identifies, and the device. Only keys that begin with
// `section`, such as "model.", are compared.
std::optional<ConfigDifference> first_difference(const nlohmann::ordered_json& expected,
                                                 const nlohmann::ordered_json& got, std::string_view section = "");

// Throws Error that names `what` and the first key that differs, but for those that may. A key that an older record
// lacks has its default.
void expect_same(const RunConfig& expected, const nlohmann::ordered_json& got, std::string_view what,
                 std::string_view section = "", const std::set<std::string>& may_differ = {});

}  // namespace cogwheel::runs
