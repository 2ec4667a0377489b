// Numeric options.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

#include "cogwheel/core/range.h"

namespace cogwheel::cli {

// Adds an option for a number within a range. Its help shows the range; other values, also beyond 64 bits, are refused
// in one line. `value`, a number or an optional one, must live as long as the command; its current value is the
// default.
template <class Value, class Number>
CLI::Option* add_number(CLI::App& command, const std::string& name, Value& value, const Range<Number>& range,
                        const std::string& help) {
  return command.add_option_function<std::string>(
      name, [&value, name, range](const std::string& text) { value = parse_number(name, text, range); },
      help + " [" + range.text() + "]");
}

}  // namespace cogwheel::cli
