#include "cogwheel/runs/configuration/toml_text.h"

#include <cstdint>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::runs {
namespace {

// toml++ limits how deep values lie in each other, but not the parts of a dotted key, each of which is a table in the
// one before: to walk down 100,000 of them overflows the stack.
void expect_short_keys(std::string_view text, std::string_view what) {
  constexpr std::int64_t most_dots = 16;
  std::int64_t dots = 0, line = 1;
  std::string_view closing;  // of the string that is open
  bool comment = false;
  for (std::size_t place = 0; place < text.size(); ++place) {
    const char character = text[place];
    const auto begins = [&](std::string_view words) { return text.substr(place).starts_with(words); };
    if (character == '\n') {
      ++line;
      comment = false;
      if (closing.size() != 3) closing = {}, dots = 0;
    } else if (comment) {
      continue;
    } else if (!closing.empty()) {
      if (closing.front() == '"' && character == '\\')
        ++place;
      else if (begins(closing))
        place += closing.size() - 1, closing = {};
    } else if (character == '"' || character == '\'') {
      for (const std::string_view quotes : {"\"\"\"", "'''", "\"", "'"})
        if (closing.empty() && begins(quotes)) closing = quotes;
      place += closing.size() - 1;
    } else if (character == '#') {
      comment = true;
    } else if (character == '.') {
      if (++dots > most_dots)
        throw UsageError(expected_got(what, "TOML whose keys have at most " + std::to_string(most_dots + 1) + " parts",
                                      "a longer one (line " + std::to_string(line) + ")"));
    } else if (std::string_view(",=[]{}").find(character) != std::string_view::npos) {
      dots = 0;
    }
  }
}

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view what) {
  expect_short_keys(text, what);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(expected_got(
        what, "TOML", std::string(error.description()) + " (line " + std::to_string(error.source().begin.line) + ")"));
  }
}

}  // namespace cogwheel::runs
