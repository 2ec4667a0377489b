#include "cogwheel/attention/mechanisms/layer_pattern.h"

#include <algorithm>
#include <charconv>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

constexpr std::int64_t max_layers = 10'000;

struct NamedPart {
  std::string name;
  std::int64_t layers = 1;
};

[[noreturn]] void refuse_pattern(std::string_view pattern, std::string_view what) {
  throw UsageError(
      expected_got(what, "a name, or names and numbers of layers as in gla*3+softmax", std::string(pattern)));
}

std::vector<NamedPart> parts_of(std::string_view pattern, std::string_view what) {
  std::vector<NamedPart> parts;
  for (std::string_view rest = pattern; true;) {
    const std::size_t plus = rest.find('+');
    std::string_view part = rest.substr(0, plus);
    NamedPart& named = parts.emplace_back();
    if (const std::size_t star = part.find('*'); star != std::string_view::npos) {
      const std::string_view count = part.substr(star + 1);
      const auto [end, problem] = std::from_chars(count.data(), count.data() + count.size(), named.layers);
      if (problem != std::errc() || end != count.data() + count.size() || named.layers < 1 || named.layers > max_layers)
        refuse_pattern(pattern, what);
      part = part.substr(0, star);
    }
    named.name = part;
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }
  // A name alone, empty or misspelt, is for the catalogue to refuse, which knows those near to it.
  const bool hybrid = pattern.find_first_of("+*") != std::string_view::npos;
  if (hybrid && std::any_of(parts.begin(), parts.end(), [](const NamedPart& part) { return part.name.empty(); }))
    refuse_pattern(pattern, what);
  return parts;
}

}  // namespace

std::vector<std::string> names_of_pattern(std::string_view pattern, std::string_view what) {
  std::vector<std::string> names;
  for (NamedPart& part : parts_of(pattern, what)) names.push_back(std::move(part.name));
  return names;
}

bool ties_keys(std::string_view pattern) {
  const std::vector<std::string> names = names_of_pattern(pattern);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const Mechanism* const mechanism = mechanism_or_null(name);
    return mechanism != nullptr && mechanism->ties_keys;
  });
}

LayerPattern::LayerPattern(std::string_view pattern, std::string_view what) {
  for (const NamedPart& part : parts_of(pattern, what)) {
    const Mechanism& mechanism = find_mechanism(part.name, what);
    parts_.push_back({&mechanism, part.layers});
    period_ += part.layers;
    if (mechanism.definition.empty() || mechanism.definition == definition_) continue;
    if (!definition_.empty())
      throw UsageError(expected_got(what, "mechanisms of at most one definition of your own", std::string(pattern)));
    definition_ = mechanism.definition;
  }
}

const Mechanism& LayerPattern::at(std::int64_t layer) const {
  std::int64_t left = layer % period_;
  for (const Part& part : parts_) {
    if (left < part.layers) return *part.mechanism;
    left -= part.layers;
  }
  return *parts_.back().mechanism;
}

std::vector<const Mechanism*> LayerPattern::mechanisms() const {
  std::vector<const Mechanism*> found;
  for (const Part& part : parts_) found.push_back(part.mechanism);
  return found;
}

std::string LayerPattern::title() const {
  std::string title;
  for (const Part& part : parts_) {
    title.append(title.empty() ? "" : " + ").append(part.mechanism->description.title);
    if (part.layers > 1) title.append(" × ").append(std::to_string(part.layers));
  }
  return title;
}

std::string LayerPattern::formula() const {
  std::string formula;
  for (const Part& part : parts_)
    formula.append(formula.empty() ? "" : " | ").append(part.mechanism->description.formula);
  return formula;
}

std::string name_in_path(std::string_view pattern) {
  std::string name(pattern);
  std::replace(name.begin(), name.end(), '*', '.');
  std::replace(name.begin(), name.end(), '+', '-');
  return name;
}

}  // namespace cogwheel
