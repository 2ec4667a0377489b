#include "cogwheel/runs/class_matching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include "cogwheel/core/error.h"
#include "cogwheel/text/held_out_tenth.h"

namespace cogwheel::runs {
namespace {

using ClassNames = std::vector<std::string>;

// "Not_Good" and "not good" are one.
std::string folded(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '_' || c == '-'; }, ' ');
  return text::text_content(name);
}

// 1 of "1" and of "LABEL_1", as transformers calls what nobody has named.
std::optional<std::int64_t> number_in(std::string_view name) {
  constexpr std::string_view unnamed = "LABEL_";
  if (name.starts_with(unnamed)) name.remove_prefix(unnamed.size());
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (problem != std::errc() || end != name.data() + name.size() || number < 0 || std::to_string(number) != name)
    return std::nullopt;
  return number;
}

// The first name that is not the one of exactly one class of the model, or none: then `places` are found.
std::optional<std::string> unmatched(const ClassNames& model, const ClassNames& data,
                                     const std::function<std::string(const std::string&)>& as,
                                     std::vector<std::int64_t>& places) {
  std::multimap<std::string, std::int64_t> known;
  for (std::size_t place = 0; place < model.size(); ++place)
    known.emplace(as(model[place]), static_cast<std::int64_t>(place));
  places.clear();
  for (const std::string& name : data) {
    const std::string wanted = as(name);
    if (known.count(wanted) != 1) return name;
    places.push_back(known.find(wanted)->second);
  }
  std::vector<std::int64_t> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return std::nullopt;
  return data[static_cast<std::size_t>(std::find(places.begin(), places.end(), *twice) - places.begin())];
}

std::string listed_classes(const ClassNames& names) {
  constexpr std::size_t shown = 8;
  const std::size_t count = std::min(shown, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                     count < names.size() ? ", …" : "");
}

}  // namespace

ClassMatch match_classes(const ClassNames& model, const ClassNames& data, std::string_view what) {
  ClassMatch match;
  const auto first = unmatched(
      model, data, [](const std::string& name) { return name; }, match.places);
  if (!first) return match;
  if (!unmatched(model, data, folded, match.places)) {
    match.note = "classes are matched by their names without letter case";
    return match;
  }
  const auto is_place = [&](const std::string& name) {
    const auto number = number_in(name);
    return number && *number < std::ssize(model);
  };
  if (std::all_of(data.begin(), data.end(), is_place)) {
    match.places.clear();
    for (const std::string& name : data) match.places.push_back(*number_in(name));
    match.note = fmt::format("the numbers that the data call classes by are taken as places among the model's: {}",
                             listed_classes(model));
    return match;
  }
  bool unnamed = model.size() == data.size();
  for (std::size_t place = 0; place < model.size(); ++place)
    unnamed = unnamed && number_in(model[place]) == static_cast<std::int64_t>(place);
  if (!unnamed) throw Error(expected_got(what, "classes of the model: " + listed_classes(model), *first));
  match.places.clear();
  for (std::size_t place = 0; place < data.size(); ++place) match.places.push_back(static_cast<std::int64_t>(place));
  match.note = fmt::format("the model's classes have no names; they are taken in the order of the data: {}",
                           listed_classes(data));
  return match;
}

}  // namespace cogwheel::runs
