#include "cogwheel/attention/mechanisms/catalogue.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/all_mechanisms.h"  // generated from mechanisms.def
#include "cogwheel/attention/mechanisms/forms/form.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/attention/mechanisms/scalar_map.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

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

constexpr bool takes_cosines(const Description& description) { return description.score == "cosine"; }

bool is_form(const Mechanism& mechanism) { return mechanism.pairwise() != nullptr && mechanism.pairwise()->is_form(); }

constexpr std::string_view plain_member = "softmax";  // a form over it has just the form's name

template <class Map>
constexpr ScalarMap scalar_of = scalar_map<Map>();

// Reserved for that many maps of users and the forms over them, so that entries never move.
constexpr std::size_t max_added = 2000;

class Catalogue {
 public:
  Catalogue() {
    std::vector<Mechanism> members;
    std::vector<Mechanism> others;
#define ROW_MAP(identifier, Map)      \
  entries_.push_back(row_map<Map>()); \
  if constexpr (reads_scores<Map>()) members.push_back(entries_.back());
#define FORM(identifier, Type) forms_.push_back(Type::form);
#define DENSE(identifier, Type) others.push_back(dense_mechanism<Type>());
#define RECURRENT(identifier, Type)                                                        \
  static_assert(!fault_of(Type::law), "a law that the operator cannot run: " #identifier); \
  others.push_back(recurrent_mechanism(Type::law));
#include "cogwheel/attention/mechanisms/mechanisms.def"
#undef ROW_MAP
#undef FORM
#undef DENSE
#undef RECURRENT
    for (const Form& form : forms_)
      for (const Mechanism& member : members)
        if (member.description.name == plain_member) entries_.push_back(compose(form, member));
    entries_.insert(entries_.end(), others.begin(), others.end());
    base_ = entries_.size();
    for (const Form& form : forms_)
      for (const Mechanism& member : members)
        if (member.description.name != plain_member) entries_.push_back(compose(form, member));
    built_in_ = entries_.size();
    entries_.reserve(built_in_ + max_added * (1 + forms_.size()));
    first_ = entries_.data();
    publish();
  }

  std::span<const Mechanism> all() const { return {first_, count_.load(std::memory_order_acquire)}; }
  std::span<const Mechanism> base() const { return all().first(base_); }
  std::span<const Mechanism> added() const { return all().subspan(built_in_); }

  const Mechanism* find(std::string_view name) const {
    const std::shared_lock lock(naming_);
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  const Mechanism& add(const AddedMap& map) {
    const std::scoped_lock lock(adding_);
    if (const Mechanism* same = same_or_free(map.description.name, map.definition)) return *same;
    const std::size_t at = place_for(1 + forms_.size());
    const Description description = kept(map.description);
    entries_.push_back({.description = description,
                        .family = PairwiseMechanism{.form = {},
                                                    .member = description.name,
                                                    .has_energy = map.has_energy,
                                                    .takes_cosines = takes_cosines(description),
                                                    .parameter_defaults = keep(map.parameter_defaults),
                                                    .scalar = &scalars_.emplace_back(*map.scalar)},
                        .operator_name = description.name,
                        .parameter_initial = keep(map.parameter_initial),
                        .definition = keep(std::string(map.definition))});
    for (const Form& form : forms_) entries_.push_back(compose(form, entries_[at]));
    publish();
    return entries_[at];
  }

  const Mechanism& add(const RecurrentLaw& law, std::string_view definition) {
    check_recurrent_law(law);
    const std::scoped_lock lock(adding_);
    if (const Mechanism* same = same_or_free(law.name, definition)) return *same;
    const std::size_t at = place_for(1);
    entries_.push_back(recurrent_mechanism(laws_.emplace_back(kept(law))));
    entries_[at].definition = keep(std::string(definition));
    publish();
    return entries_[at];
  }

  // The entry of the same definition; null where the name is free. Throws where another mechanism has the name.
  const Mechanism* same_or_free(std::string_view name, std::string_view definition) const {
    if (const Mechanism* there = find(name)) {
      if (!is_form(*there) && !definition.empty() && there->definition == definition) return there;
      throw UsageError(expected_got(
          "mechanism", "a name that is not taken",
          std::string(name) + ", which " +
              (there->definition.empty() ? "is built in" : "is defined already: " + std::string(there->definition))));
    }
    for (const Form& form : forms_)
      if (const std::string composed = std::string(form.name).append("_").append(name); find(composed) != nullptr)
        throw UsageError(expected_got("mechanism", "a name that is not taken, also not with a form before it",
                                      std::string(name) + ": " + composed + " is another"));
    return nullptr;
  }

 private:
  // Where the next entry will be. Throws where there is no room for that many without moving others.
  std::size_t place_for(std::size_t count) const {
    if (entries_.size() + count > entries_.capacity())
      throw Error(expected_got("mechanisms", "at most " + std::to_string(max_added) + " of users", "one more"));
    return entries_.size();
  }

  // Makes the complete entries visible to other threads.
  void publish() {
    {
      const std::unique_lock lock(naming_);
      for (std::size_t i = by_name_.size(); i < entries_.size(); ++i)
        by_name_.emplace(entries_[i].description.name, &entries_[i]);
    }
    count_.store(entries_.size(), std::memory_order_release);
  }

  template <class Map>
  static Mechanism row_map() {
    return {.description = Map::description,
            .family = PairwiseMechanism{.form = {},
                                        .member = Map::description.name,
                                        .has_energy = EnergyMap<Map, double>,
                                        .takes_cosines = takes_cosines(Map::description),
                                        .parameter_defaults = defaults_of<Map>(),
                                        .scalar = &scalar_of<Map>},
            .operator_name = Map::description.name,
            .parameter_initial = initial_of<Map>()};
  }

  template <class Type>
  static Mechanism dense_mechanism() {
    return {.description = Type::description,
            .family = MatrixMechanism(),
            .operator_name = Type::description.name,
            .ties_keys = true,
            .parameter_initial = initial_of<Type>()};
  }

  Mechanism recurrent_mechanism(const RecurrentLaw& law) {
    const bool one = law.normalizer == Normalizer::always;
    return {.description = {.name = law.name,
                            .title = law.title,
                            .family = "recurrent",
                            .level = "operator",
                            .parameters = parameters_of(law),
                            .formula = law.formula,
                            .range = one ? "any; sum 1" : "any",
                            .citation = law.citation},
            .family = RecurrentMechanism{&law},
            .operator_name = law.name};
  }

  // The names of what users give beside query, key and value.
  std::string_view parameters_of(const RecurrentLaw& law) {
    std::string_view names;
    for (const RecurrentParameter& parameter : law.parameters) names = join(names, ", ", parameter.name);
    if (law.features == Features::asked) names = join(names, ", ", "feature_map");
    if (law.normalizer == Normalizer::asked) names = join(names, ", ", "normalize");
    return names;
  }

  Mechanism compose(const Form& form, const Mechanism& member) {
    const Description& map = member.description;
    const bool plain = map.name == plain_member;
    Mechanism mechanism = member;
    mechanism.description = {.name = name_of(form.name, map.name),
                             .title = plain ? form.title : join(form.title, " ", map.title),
                             .family = map.family,
                             .level = form.is_layer ? "layer" : "operator",
                             .parameters = join(map.parameters, ", ", form.parameters),
                             .formula = filled(form.formula, map.name),
                             .range = plain ? form.range : filled(form.range_of_map, map.range),
                             .citation = plain ? form.citation : join(form.citation, "; ", map.citation),
                             .score = map.score};
    auto& pairwise = std::get<PairwiseMechanism>(mechanism.family);
    pairwise.form = form.name;
    pairwise.sub_heads = form.sub_heads;
    pairwise.subtracted = form.subtracted;
    mechanism.is_layer = form.is_layer;
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
  std::span<const double> keep(std::span<const double> numbers) {
    return numbers_.emplace_back(numbers.begin(), numbers.end());
  }
  Description kept(Description description) {
    for (auto* text :
         {&description.name, &description.title, &description.family, &description.level, &description.parameters,
          &description.formula, &description.range, &description.citation, &description.score})
      *text = keep(std::string(*text));
    return description;
  }

  RecurrentLaw kept(RecurrentLaw law) {
    auto& parameters = parameters_.emplace_back(law.parameters.begin(), law.parameters.end());
    for (RecurrentParameter& parameter : parameters)
      for (auto* text : {&parameter.name, &parameter.axes}) *text = keep(std::string(*text));
    auto& options = options_.emplace_back(law.options.begin(), law.options.end());
    for (LawOption& option : options)
      for (auto* text : {&option.name, &option.parameter}) *text = keep(std::string(*text));
    for (auto* text : {&law.name, &law.title, &law.formula, &law.citation}) *text = keep(std::string(*text));
    auto& state = states_.emplace_back(law.state.begin(), law.state.end());
    for (StatePart& part : state)
      for (auto* text : {&part.name, &part.axes}) *text = keep(std::string(*text));
    law.parameters = parameters;
    law.options = options;
    law.state = state;
    return law;
  }

  // Descriptions and entries point into these; a deque never moves its elements.
  std::deque<std::string> texts_;
  std::deque<std::vector<double>> numbers_;
  std::deque<ScalarMap> scalars_;
  std::deque<RecurrentLaw> laws_;
  std::deque<std::vector<RecurrentParameter>> parameters_;
  std::deque<std::vector<LawOption>> options_;
  std::deque<std::vector<StatePart>> states_;
  std::vector<Form> forms_;
  std::vector<Mechanism> entries_;
  std::size_t base_ = 0, built_in_ = 0;

  std::mutex adding_;
  const Mechanism* first_ = nullptr;    // of entries_, for threads that read while one is added
  std::atomic<std::size_t> count_ = 0;  // of entries that are complete
  mutable std::shared_mutex naming_;
  std::unordered_map<std::string_view, const Mechanism*> by_name_;  // names are unique
};

Catalogue& catalogue() {
  static Catalogue instance;
  return instance;
}

std::vector<std::string> names_of(std::span<const Mechanism> entries) {
  std::vector<std::string> names;
  for (const auto& mechanism : entries) names.emplace_back(mechanism.description.name);
  return names;
}

}  // namespace

std::span<const Mechanism> mechanisms() { return catalogue().base(); }

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names = names_of(mechanisms());
  for (const Mechanism* added : added_mechanisms()) names.emplace_back(added->description.name);
  return names;
}

std::span<const Mechanism> all_mechanisms() { return catalogue().all(); }

const Mechanism& add_mechanism(const AddedMap& map) { return catalogue().add(map); }

const Mechanism& add_recurrent_law(const RecurrentLaw& law, std::string_view definition) {
  return catalogue().add(law, definition);
}

bool is_added(std::string_view name, std::string_view definition) {
  return catalogue().same_or_free(name, definition) != nullptr;
}

std::vector<const Mechanism*> added_mechanisms() {
  std::vector<const Mechanism*> defined;
  for (const Mechanism& mechanism : catalogue().added())
    if (!is_form(mechanism)) defined.push_back(&mechanism);
  return defined;
}

const Mechanism* mechanism_or_null(std::string_view name) { return catalogue().find(name); }

const Mechanism& find_mechanism(std::string_view name, std::string_view what) {
  if (const Mechanism* mechanism = mechanism_or_null(name)) return *mechanism;
  const auto all = names_of(all_mechanisms());
  // Where no name is near, the base entries are the list that is short enough to read.
  throw UsageError(expected_got(what, expected_names(name, nearest_names(name, all).empty() ? mechanism_names() : all),
                                name.empty() ? "an empty name" : std::string(name)));
}

const RecurrentLaw* find_recurrent_law(std::string_view name) {
  const Mechanism* mechanism = mechanism_or_null(name);
  return mechanism != nullptr ? mechanism->recurrent() : nullptr;
}

}  // namespace cogwheel
