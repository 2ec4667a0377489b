#include "cogwheel/attention/authoring/numbers_as_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace cogwheel::authoring {
namespace {

std::string formatted(const char* format, double value) {
  if (std::isnan(value)) return "NaN";
  if (value == 0) return "0";
  std::array<char, 40> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, value);
  std::string text = buffer.data();
  if (const std::size_t exponent = text.find('e'); exponent != std::string::npos) {
    if (text[exponent + 1] == '+') text.erase(exponent + 1, 1);
    const std::size_t digits = text.find_first_of("0123456789", exponent);
    if (text[digits] == '0') text.erase(digits, 1);
  }
  return text;
}

}  // namespace

std::string exact_text(double value) { return formatted("%.6g", value); }
std::string number_text(double value) { return formatted("%.3g", value); }
std::string error_text(double value) { return formatted("%.0e", value); }

}  // namespace cogwheel::authoring
