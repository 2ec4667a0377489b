#include "cogwheel/pages/html.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <string>

namespace cogwheel::pages {

namespace {

// U+202A to U+202E and U+2066 to U+2069, which turn the direction of all that follows them, in what is not their own
// text too.
bool turns_direction(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xe2') return false;
  const auto last = static_cast<unsigned char>(text[2]);
  return (text[1] == '\x80' && last >= 0xaa && last <= 0xae) || (text[1] == '\x81' && last >= 0xa6 && last <= 0xa9);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (turns_direction(text.substr(at))) {
      escaped += "\uFFFD";
      at += 2;
      continue;
    }
    switch (const char character = text[at]) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

std::string escape_script_json(std::string json) {
  for (std::size_t place = json.find('<'); place != std::string::npos; place = json.find('<', place))
    json.replace(place, 1, "\\u003c");
  return json;
}

std::string fill_template(std::string_view text, const std::function<std::string(std::string_view name)>& value) {
  std::string filled;
  for (std::size_t place = 0;;) {
    const std::size_t open = text.find("{{", place);
    filled += text.substr(place, open == std::string_view::npos ? open : open - place);
    if (open == std::string_view::npos) return filled;
    const std::size_t close = text.find("}}", open);
    filled += value(text.substr(open + 2, close - open - 2));
    place = close + 2;
  }
}

std::string fill_template(std::string_view text, const std::map<std::string_view, std::string>& values) {
  return fill_template(text, [&](std::string_view name) { return values.at(name); });
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(std::abs(number));
  for (int place = static_cast<int>(digits.size()) - 3; place > 0; place -= 3)
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  return fmt::format("{}{}", number < 0 ? "−" : "", digits);
}

std::string fixed(double value, int digits) {
  const std::string size = fmt::format("{:.{}f}", std::abs(value), digits);
  const bool zero = size.find_first_not_of("0.") == std::string::npos;
  return fmt::format("{}{}", value < 0 && !zero ? "−" : "", size);
}

std::string signed_fixed(double value, int digits) {
  const std::string text = fixed(value, digits);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return fmt::format("{}{}", value > 0 && !zero ? "+" : "", text);
}

std::string rounded_count(std::int64_t count) {
  const double value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f} G", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f} M", value / 1e6);
  return grouped(count);
}

std::string byte_size(std::int64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < units.size()) size /= 1024, ++unit;
  if (unit == 0) return grouped(bytes) + " bytes";
  return fmt::format("{:.{}f} {}", size, size < 10 ? 1 : 0, units[unit]);
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string number_word(std::int64_t count) {
  constexpr std::array<const char*, 13> words{"no",    "one",   "two",  "three", "four",   "five",  "six",
                                              "seven", "eight", "nine", "ten",   "eleven", "twelve"};
  return count >= 0 && count < 13 ? words[static_cast<std::size_t>(count)] : std::to_string(count);
}

std::string power_of_ten(int exponent) {
  constexpr std::array<const char*, 10> digits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += digits[static_cast<std::size_t>(digit - '0')];
  return text;
}

std::string with_powers(std::string_view text) {
  const auto is_digit = [](char character) { return character >= '0' && character <= '9'; };
  std::string shown;
  for (std::size_t at = 0; at < text.size(); ++at) {
    // "e-05", with at least two digits, after a digit, and no part of a longer word.
    std::size_t end = at + 2;
    while (end < text.size() && is_digit(text[end])) ++end;
    std::size_t begin = at;  // of the factor
    while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
    const bool power = text[at] == 'e' && at > begin && is_digit(text[at - 1]) && at + 1 < text.size() &&
                       (text[at + 1] == '-' || text[at + 1] == '+') && end >= at + 4 && end <= at + 5 &&
                       (end == text.size() || !std::isalnum(static_cast<unsigned char>(text[end]))) &&
                       (begin == 0 || !std::isalnum(static_cast<unsigned char>(text[begin - 1])));
    if (!power) {
      shown += text[at];
      continue;
    }
    if (text.substr(begin, at - begin) == "1")
      shown.pop_back();
    else
      shown += "·";
    const int exponent = std::stoi(std::string(text.substr(at + 2, end - at - 2)));
    shown += power_of_ten(text[at + 1] == '-' ? -exponent : exponent);
    at = end - 1;
  }
  return shown;
}

std::string cell_html(std::string_view cell) {
  if (!reads_as_number(cell)) return escape_html(cell);
  std::string text;
  const std::string powers = with_powers(cell);
  for (std::size_t at = 0; at < powers.size(); ++at)
    text += powers[at] == '-' && (at == 0 || powers[at - 1] == ' ') ? std::string("−") : std::string(1, powers[at]);
  return escape_html(text);
}

std::string learning_rate_text(double rate) { return with_powers(fmt::format("{:.3g}", rate)); }

std::string date_text(std::string_view iso) {
  constexpr std::array<const char*, 12> months{"January", "February", "March",     "April",   "May",      "June",
                                               "July",    "August",   "September", "October", "November", "December"};
  int month = 0, day = 0;
  if (std::sscanf(std::string(iso).c_str(), "%*4d-%2d-%2d", &month, &day) != 2 || month < 1 || month > 12)
    return std::string(iso);
  return fmt::format("{} {} {}", day, months[static_cast<std::size_t>(month - 1)], iso.substr(0, 4));
}

bool reads_as_number(std::string_view text) {
  return text.find_first_of("0123456789") != std::string_view::npos &&
         text.find_first_not_of("0123456789.,+-−±%×·eE –to") == std::string_view::npos;
}

std::string capitalised(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

}  // namespace cogwheel::pages
