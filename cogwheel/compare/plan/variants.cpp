#include "cogwheel/compare/plan/variants.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/configuration/toml_text.h"

namespace cogwheel::compare {
namespace {

constexpr std::size_t longest_name = 60;

std::string trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\n\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(blank) - first + 1));
}

// It is a part of the path of its runs, and stands before a colon.
void expect_name(std::string_view name, std::string_view what) {
  const bool text = find_non_text(name) == std::string::npos;
  const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char character) {
    return character < 0x20 || character == 0x7f || character == '/' || character == ':';
  });
  if (name.empty() || name.size() > longest_name || name.front() == '.' || !plain || !text || trimmed(name) != name)
    throw UsageError(expected_got(
        what, "a name of at most " + std::to_string(longest_name) + " bytes, without / and :, that begins with no dot",
        text && plain ? name : "another"));
}

// As `--set` reads it: words without quotation marks, all else as in TOML.
std::string value_text(const toml::node& node) {
  if (const auto* string = node.as_string())
    if (const std::string& text = string->get();
        !text.empty() && text.find_first_of("\"#\n\r") == std::string::npos && trimmed(text) == text)
      return text;
  std::ostringstream text;
  text << toml::toml_formatter(node);
  std::string line = text.str();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

void add_assignments(const toml::table& table, const std::string& before, std::vector<std::string>& set) {
  for (const auto& [key, node] : table) {
    const std::string path = before + std::string(key.str());
    if (const toml::table* inner = node.as_table())
      add_assignments(*inner, path + ".", set);
    else
      set.push_back(path + "=" + value_text(node));
  }
}

}  // namespace

std::string key_of(const std::string& assignment) { return assignment.substr(0, assignment.find('=')); }

bool is_variant(std::string_view text) { return text.find(':') != std::string_view::npos; }

Variant parse_variant(std::string_view text, std::string_view option) {
  const auto refuse = [&](std::string_view got) {
    throw UsageError(expected_got(option, "NAME: KEY=VALUE …, as in \"outer: model.mechanism=cog\"", got));
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) refuse(text);
  Variant variant{.name = trimmed(text.substr(0, colon)), .set = {}};
  expect_name(variant.name, option);
  const std::string assignments = trimmed(text.substr(colon + 1));
  static const std::regex key("(^|\\s)([a-z_]+\\.[a-z0-9_]+=)");
  std::vector<std::size_t> starts;
  for (std::sregex_iterator match(assignments.begin(), assignments.end(), key), end; match != end; ++match)
    starts.push_back(static_cast<std::size_t>(match->position(2)));
  if (starts.empty() || starts.front() != 0) refuse(text);
  starts.push_back(assignments.size());
  for (std::size_t index = 0; index + 1 < starts.size(); ++index)
    variant.set.push_back(
        trimmed(std::string_view(assignments).substr(starts[index], starts[index + 1] - starts[index])));
  for (auto each = variant.set.begin(); each != variant.set.end(); ++each)
    if (std::any_of(variant.set.begin(), each, [&](const auto& before) { return key_of(before) == key_of(*each); }))
      throw UsageError(expected_got(option, "each key of a row once", key_of(*each) + " twice in " + variant.name));
  return variant;
}

std::vector<Variant> parse_variants(std::string_view text, const std::string& what) {
  const toml::table given = runs::parse_toml(text, what);
  const toml::table* const tables = given["variants"].as_table();
  if (tables == nullptr || tables->empty())
    throw UsageError(expected_got(what, "a table [variants.NAME] at least", "none"));
  std::vector<std::pair<toml::source_position, Variant>> placed;
  for (const auto& [name, node] : *tables) {
    const std::string key = what + ": variants." + std::string(name.str());
    if (!node.is_table()) throw UsageError(expected_got(key, "a table of keys", "a value"));
    Variant variant{.name = std::string(name.str()), .set = {}};
    expect_name(variant.name, key);
    add_assignments(*node.as_table(), "", variant.set);
    if (variant.set.empty()) throw UsageError(expected_got(key, "a key at least", "none"));
    placed.emplace_back(node.source().begin, std::move(variant));
  }
  // As they stand in the file: toml++ sorts them by name.
  std::stable_sort(placed.begin(), placed.end(), [](const auto& one, const auto& other) {
    return std::pair(one.first.line, one.first.column) < std::pair(other.first.line, other.first.column);
  });
  std::vector<Variant> variants;
  for (auto& [position, variant] : placed) variants.push_back(std::move(variant));
  return variants;
}

std::vector<Variant> read_variants(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  const toml::table given = runs::parse_toml(text, file.string());
  for (const auto& [key, node] : given)
    if (key.str() != "variants")
      throw UsageError(expected_got(file.string(), "tables [variants.NAME] and no others", key.str()));
  return parse_variants(text, file.string());
}

std::string variant_text(std::string_view name, const std::vector<std::string>& set) {
  std::string text = std::string(name) + ":";
  for (const std::string& assignment : set) text += " " + assignment;
  return text;
}

}  // namespace cogwheel::compare
