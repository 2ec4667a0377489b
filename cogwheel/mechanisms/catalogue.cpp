#include "cogwheel/mechanisms/catalogue.h"

#include <deque>

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"
#include "cogwheel/mechanisms/all_mechanisms.h"  // generated from mechanisms.def
#include "cogwheel/mechanisms/form.h"

namespace cogwheel {
namespace {

template <class Map>
constexpr std::span<const double> defaults_of() {
  if constexpr (requires { Map::parameter_defaults; })
    return Map::parameter_defaults;
  else
    return {};
}

template <class Map>
constexpr std::span<const double> initial_of() {
  if constexpr (requires { Map::parameter_initial; })
    return Map::parameter_initial;
  else
    return {};
}

template <class Map>
constexpr bool reads_scores() {
  if constexpr (requires { Map::reads_scores; })
    return Map::reads_scores;
  else
    return true;
}

constexpr std::string_view plain_member = "softmax";  // over which a form has no name but its own

class Catalogue {
 public:
  Catalogue() {
    std::vector<Mechanism> members;
    std::vector<Form> forms;
    std::vector<Mechanism> dense;
#define ROW_MAP(identifier, Map)      \
  entries_.push_back(row_map<Map>()); \
  if constexpr (reads_scores<Map>()) members.push_back(entries_.back());
#define FORM(identifier, Type) forms.push_back(Type::form);
#define DENSE(identifier, Type) dense.push_back(dense_form<Type>());
#include "cogwheel/mechanisms/mechanisms.def"
#undef ROW_MAP
#undef FORM
#undef DENSE
    for (const Form& form : forms)
      for (const Mechanism& member : members)
        if (member.member == plain_member) entries_.push_back(compose(form, member));
    entries_.insert(entries_.end(), dense.begin(), dense.end());
    base_ = entries_.size();
    for (const Form& form : forms)
      for (const Mechanism& member : members)
        if (member.member != plain_member) entries_.push_back(compose(form, member));
  }

  std::span<const Mechanism> all() const { return entries_; }
  std::span<const Mechanism> base() const { return all().first(base_); }

 private:
  template <class Map>
  static Mechanism row_map() {
    return {.kind = MechanismKind::row_map,
            .description = Map::description,
            .form = {},
            .member = Map::description.name,
            .has_energy = EnergyMap<Map, double>,
            .operator_name = Map::description.name,
            .parameter_defaults = defaults_of<Map>(),
            .parameter_initial = initial_of<Map>()};
  }

  template <class Type>
  static Mechanism dense_form() {
    return {.kind = MechanismKind::dense,
            .description = Type::description,
            .form = {},
            .member = {},
            .has_energy = false,
            .operator_name = Type::description.name,
            .ties_keys = true,
            .parameter_initial = initial_of<Type>()};
  }

  Mechanism compose(const Form& form, const Mechanism& member) {
    const Description& map = member.description;
    const bool plain = map.name == plain_member;
    Mechanism mechanism = member;
    mechanism.kind = MechanismKind::form;
    mechanism.description = {.name = name_of(form.name, map.name),
                             .title = plain ? form.title : join(form.title, " ", map.title),
                             .family = map.family,
                             .level = form.level,
                             .parameters = join(map.parameters, ", ", form.parameters),
                             .formula = filled(form.formula, map.name),
                             .range = plain ? form.range : filled(form.range_of_map, map.range),
                             .citation = plain ? form.citation : join(form.citation, "; ", map.citation),
                             .score = map.score};
    mechanism.form = form.name;
    mechanism.sub_heads = form.sub_heads;
    mechanism.subtracted = form.subtracted;
    mechanism.ties_keys = form.ties_keys;
    if (!form.ties_keys)
      mechanism.operator_name = mechanism.description.name;
    else if (!form.untied.empty())
      mechanism.operator_name = name_of(form.untied, map.name);
    return mechanism;
  }

  std::string_view name_of(std::string_view form, std::string_view map) {
    return map == plain_member ? form : join(form, "_", map);
  }

  std::string_view join(std::string_view first, std::string_view between, std::string_view second) {
    if (first.empty() || second.empty()) return first.empty() ? second : first;
    return keep(std::string(first).append(between).append(second));
  }

  // The pattern with every {} replaced.
  std::string_view filled(std::string_view pattern, std::string_view text) {
    std::string result(pattern);
    for (std::size_t at = 0; (at = result.find("{}", at)) != std::string::npos; at += text.size())
      result.replace(at, 2, text);
    return keep(std::move(result));
  }

  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  std::deque<std::string> texts_;  // what descriptions point to; a deque never moves its elements
  std::vector<Mechanism> entries_;
  std::size_t base_ = 0;
};

const Catalogue& catalogue() {
  static const Catalogue instance;
  return instance;
}

std::vector<std::string> names_of(std::span<const Mechanism> entries) {
  std::vector<std::string> names;
  for (const auto& mechanism : entries) names.emplace_back(mechanism.description.name);
  return names;
}

}  // namespace

std::span<const Mechanism> mechanisms() { return catalogue().base(); }

std::vector<std::string> mechanism_names() { return names_of(mechanisms()); }

std::span<const Mechanism> all_mechanisms() { return catalogue().all(); }

const Mechanism& find_mechanism(std::string_view name, std::string_view what) {
  for (const auto& mechanism : all_mechanisms())
    if (mechanism.description.name == name) return mechanism;
  const auto all = names_of(all_mechanisms());
  // Where nothing is near, the list of the base entries is the one that can be read.
  throw UsageError(expected_got(what, expected_names(name, nearest_names(name, all).empty() ? mechanism_names() : all),
                                std::string(name)));
}

}  // namespace cogwheel
