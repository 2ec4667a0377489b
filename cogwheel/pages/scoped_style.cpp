#include "cogwheel/pages/scoped_style.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace cogwheel::pages {
namespace {

// Twice the class, so that rules of a notebook for any table or heading are less specific.
constexpr std::string_view part = ".cogwheel.cogwheel";
constexpr std::string_view dark_scheme = "prefers-color-scheme: dark";
constexpr std::string_view page_in_the_dark = ":root:not([data-theme=\"light\"])";

// How notebooks say which scheme they have.
constexpr std::string_view dark_notebook =
    ":is([data-jp-theme-light=\"false\"], .vscode-dark, .vscode-high-contrast:not(.vscode-high-contrast-light), "
    "[data-theme=\"dark\"], [theme=\"dark\"]) .cogwheel.cogwheel";
constexpr std::string_view silent_notebook =
    "html:not([data-theme], [theme]) body:not([data-jp-theme-light], [data-theme], [data-vscode-theme-kind]) "
    ".cogwheel.cogwheel";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

bool in_name(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '-' || character == '_';
}

std::string without_comments(std::string_view css) {
  std::string text;
  for (std::size_t at = 0; at < css.size();) {
    const std::size_t begin = css.find("/*", at);
    text += css.substr(at, begin - at);
    if (begin == std::string_view::npos) break;
    at = css.find("*/", begin) + 2;
  }
  return text;
}

// Whether a name stands in the HTML by itself: as a class among others, or as an element after `before`.
bool has_name(std::string_view html, std::string_view name, std::string_view before = "") {
  for (std::size_t at = html.find(name); at != std::string_view::npos; at = html.find(name, at + 1)) {
    const bool begins = at == 0 || !in_name(html[at - 1]);
    const bool ends = at + name.size() == html.size() || !in_name(html[at + name.size()]);
    if (begins && ends && (before.empty() || (at > 0 && before.find(html[at - 1]) != std::string_view::npos)))
      return true;
  }
  return false;
}

// Classes and elements must be there; ids and what a pseudo-class asks for in parentheses are not looked at.
bool can_match(std::string_view selector, std::string_view html) {
  int depth = 0;
  for (std::size_t at = 0; at < selector.size();) {
    const char first = selector[at];
    depth += first == '(' || first == '[' ? 1 : first == ')' || first == ']' ? -1 : 0;
    std::size_t end = at + 1;
    while (end < selector.size() && in_name(selector[end])) ++end;
    const std::string_view name = selector.substr(at + 1, end - at - 1);
    if (depth == 0 && first == '#') return false;
    if (depth == 0 && first == '.' && !has_name(html, name)) return false;
    if (depth == 0 && in_name(first)) {
      const std::string_view element = selector.substr(at, end - at);
      if (!has_name(html, element, "<\"")) return false;
    }
    at = first == ':' || first == '.' || in_name(first) ? end : at + 1;
    if (first == ':' && at < selector.size() && selector[at] == ':') continue;
  }
  return true;
}

// At commas that stand in no parentheses.
std::vector<std::string_view> selectors_of(std::string_view list) {
  std::vector<std::string_view> found;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at == list.size() || (list[at] == ',' && depth == 0)) {
      found.push_back(trimmed(list.substr(begin, at - begin)));
      begin = at + 1;
    } else {
      depth += list[at] == '(' ? 1 : list[at] == ')' ? -1 : 0;
    }
  }
  return found;
}

// Empty where the selector has nothing to match.
std::string scoped_selector(std::string_view selector, std::string_view html) {
  if (selector == ":root" || selector == "body") return std::string(part);
  if (selector.starts_with(":root") || selector.starts_with("html") || selector.starts_with("body")) return "";
  return can_match(selector, html) ? fmt::format("{} {}", part, selector) : "";
}

// "1.25rem" as "18.75px", "38vw" as "38cqi".
std::string scoped_lengths(std::string_view text) {
  std::string scoped;
  for (std::size_t at = 0; at < text.size();) {
    const bool number = std::isdigit(static_cast<unsigned char>(text[at])) != 0 || text[at] == '.';
    if (!number || (at > 0 && in_name(text[at - 1]) && text[at - 1] != '-')) {
      scoped += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.')) ++end;
    const std::string_view digits = text.substr(at, end - at), rest = text.substr(end);
    if (rest.starts_with("rem") && digits != ".") {
      scoped += fmt::format("{:.6g}px", 15 * std::stod(std::string(digits)));
      end += 3;
    } else if (rest.starts_with("vw")) {
      scoped += fmt::format("{}cqi", digits);
      end += 2;
    } else {
      scoped += digits;
    }
    at = end;
  }
  return scoped;
}

std::string scoped_rules(std::string_view css, std::string_view html);

std::string scoped_at_rule(std::string_view rule, std::string_view body, std::string_view html) {
  if (rule.find(dark_scheme) != std::string_view::npos) {
    // Of a dark page the properties of the root alone differ.
    const std::size_t open = body.find('{');
    if (trimmed(body.substr(0, open)) != page_in_the_dark) return "";
    const std::string properties = scoped_lengths(trimmed(body.substr(open + 1, body.find('}') - open - 1)));
    return fmt::format("{} {{ {} }}\n@media ({}) {{ {} {{ {} }} }}\n", dark_notebook, properties, dark_scheme,
                       silent_notebook, properties);
  }
  const std::size_t width = rule.find("(max-width");
  if (!rule.starts_with("@media") || width == std::string_view::npos) return "";
  const std::string rules = scoped_rules(body, html);
  return rules.empty() ? "" : fmt::format("@container {} {{\n{}}}\n", scoped_lengths(rule.substr(width)), rules);
}

std::string scoped_rules(std::string_view css, std::string_view html) {
  std::string scoped;
  for (std::size_t at = 0; at < css.size();) {
    const std::size_t open = css.find('{', at);
    if (open == std::string_view::npos) break;
    std::size_t close = open + 1;
    for (int depth = 1; close < css.size(); ++close) {
      depth += css[close] == '{' ? 1 : css[close] == '}' ? -1 : 0;
      if (depth == 0) break;
    }
    const std::string_view prelude = trimmed(css.substr(at, open - at)), body = css.substr(open + 1, close - open - 1);
    at = close + 1;
    if (prelude.starts_with('@')) {
      scoped += scoped_at_rule(prelude, body, html);
      continue;
    }
    std::string selectors;
    for (const std::string_view selector : selectors_of(prelude))
      if (const std::string one = scoped_selector(selector, html); !one.empty())
        selectors += (selectors.empty() ? "" : ", ") + one;
    if (!selectors.empty()) scoped += fmt::format("{} {{ {} }}\n", selectors, scoped_lengths(trimmed(body)));
  }
  return scoped;
}

}  // namespace

std::string scoped_style(std::string_view css, std::string_view html) {
  return scoped_rules(without_comments(css), html);
}

}  // namespace cogwheel::pages
