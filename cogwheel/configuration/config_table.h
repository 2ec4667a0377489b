// Every key of a config and the member that holds its value: parsing, overriding and writing use this one table. One
// key, model.form, has no member: it names a set of others, is read before them, and is not written.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cogwheel/configuration/run_config.h"

namespace cogwheel {

using ConfigSlot = std::variant<std::string*, std::vector<std::string>*, std::int64_t*, std::uint64_t*, double*, bool*,
                                ConfigValue*, LanguageModelOptions*>;

struct ConfigField {
  std::string key;  // "section.name", or "name" at the top
  ConfigSlot slot;
};

// In the order in which they are written. Of the task's options, which only the task knows, those that are set.
std::vector<ConfigField> config_fields(RunConfig& config);

// Throws UsageError with the nearest keys. A key of [task] that is not set yet becomes one.
ConfigSlot find_slot(RunConfig& config, std::string_view key, std::string_view what);

}  // namespace cogwheel
