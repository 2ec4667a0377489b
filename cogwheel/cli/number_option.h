// Options that are numbers.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

#include "cogwheel/core/range.h"

namespace cogwheel {

// An option that is a number within a range, which its help tells and which refuses the rest in one line, also beyond
// 64 bits. `value` lives as long as the command; its value here is the default.
template <class Number>
CLI::Option* add_number(CLI::App& command, const std::string& name, Number& value, const Range<Number>& range,
                        const std::string& help) {
  return command.add_option_function<std::string>(
      name, [&value, name, range](const std::string& text) { value = parse_number(name, text, range); },
      help + " [" + range.text() + "]");
}

}  // namespace cogwheel
