// A key of a configuration and where its value is held.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cogwheel::runs {

// A value of [task], whose options only the task knows.
using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;

// A key without a value of its own: it names a set of others, is read before them, and is not written.
struct NamesOtherKeys {
  // Sets them. Throws UsageError that names `what` for a name that it does not know.
  std::function<void(std::string_view name, std::string_view what)> set;
};

using ConfigSlot = std::variant<std::string*, std::vector<std::string>*, std::vector<double>*, std::int64_t*,
                                std::uint64_t*, double*, bool*, ConfigValue*, NamesOtherKeys>;

struct ConfigField {
  std::string key;  // "section.name", or "name" at the top
  ConfigSlot slot;
};

}  // namespace cogwheel::runs
