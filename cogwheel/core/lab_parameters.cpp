#include "cogwheel/core/lab_parameters.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel {
namespace {

std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

std::string value_text(const LabParameter& parameter, double value) {
  return parameter.kind == LabParameter::Kind::whole ? number_text(static_cast<std::int64_t>(value))
                                                     : number_text(value);
}

Range<std::int64_t> whole_range(const LabParameter& parameter) {
  return {static_cast<std::int64_t>(parameter.range.min), static_cast<std::int64_t>(parameter.range.max)};
}

double parse_value(const LabParameter& parameter, std::string_view text, const std::string& what) {
  if (parameter.kind == LabParameter::Kind::real) return parse_number<double>(what, text, parameter.range);
  return static_cast<double>(parse_number<std::int64_t>(what, text, whole_range(parameter)));
}

}  // namespace

std::string LabParameter::text() const {
  std::string joined;
  for (const double value : values) joined += (joined.empty() ? "" : ", ") + value_text(*this, value);
  return list ? "[" + joined + "]" : joined;
}

std::string LabParameter::range_text() const { return kind == Kind::whole ? whole_range(*this).text() : range.text(); }

void LabParameters::set(std::string_view name, std::string_view text, std::string_view what) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& each) { return each.name == name; });
  if (found == all_.end()) {
    std::vector<std::string> names;
    for (const LabParameter& parameter : all_) names.push_back(parameter.name);
    throw UsageError(expected_got(std::string(what) + ": parameter", expected_names(name, names), name));
  }
  const std::string place = std::string(what) + ": " + found->name;
  std::string_view rest = without_spaces(text);
  const bool brackets = rest.size() >= 2 && rest.front() == '[' && rest.back() == ']';
  if (!found->list) {
    if (brackets) throw UsageError(expected_got(place, "one number", text));
    found->values = {parse_value(*found, rest, place)};
    return;
  }
  if (brackets) rest = rest.substr(1, rest.size() - 2);
  std::vector<double> values;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    values.push_back(parse_value(*found, without_spaces(rest.substr(0, comma)), place));
    if (more) rest = rest.substr(comma + 1);
  }
  found->values = std::move(values);
}

void LabParameters::assign(std::string_view assignment, std::string_view what) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) throw UsageError(expected_got(what, "name=value", assignment));
  set(assignment.substr(0, equals), assignment.substr(equals + 1), what);
}

bool LabParameters::has(std::string_view name) const {
  return std::ranges::find(all_, name, &LabParameter::name) != all_.end();
}

const LabParameter& LabParameters::find(std::string_view name) const {
  for (const LabParameter& parameter : all_)
    if (parameter.name == name) return parameter;
  throw std::logic_error(expected_got("lab: parameter", "one that it declares", name));
}

std::int64_t LabParameters::whole(std::string_view name) const {
  return static_cast<std::int64_t>(find(name).values.front());
}

double LabParameters::number(std::string_view name) const { return find(name).values.front(); }

std::vector<std::int64_t> LabParameters::wholes(std::string_view name) const {
  const std::vector<double>& values = find(name).values;
  return {values.begin(), values.end()};
}

const std::vector<double>& LabParameters::numbers(std::string_view name) const { return find(name).values; }

void LabParameters::expect_rising(std::string_view name) const {
  const LabParameter& list = find(name);
  if (std::adjacent_find(list.values.begin(), list.values.end(), std::greater_equal<>()) != list.values.end())
    throw UsageError(expected_got(std::string(name), "rising numbers", list.text()));
}

bool LabParameters::same(const LabParameters& other, const std::vector<std::string>& names) const {
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return find(name).values == other.find(name).values; });
}

}  // namespace cogwheel
