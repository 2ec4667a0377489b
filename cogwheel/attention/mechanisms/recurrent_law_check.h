// Which laws there can be: combinations of transition, walks, features and normaliser that the operator runs
// (ops/recurrent/recurrent.cpp), and the tensors that each of them reads. Built-in laws are checked while the catalogue
// is compiled, a user's when it is loaded; then its function, if it has one, runs too, without any numbers.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

// The first thing that is wrong with a law.
struct LawFault {
  std::string_view part;           // transition, walks, …, or a parameter's name; empty: nothing is wrong
  std::string_view aspect = {};    // of a parameter: axes, values or required
  std::string_view expected = {};  // empty: one of the parameters that the law reads
  std::string_view got = {};
  constexpr explicit operator bool() const { return !part.empty(); }
};

// A tensor that a law reads.
struct ReadParameter {
  std::string_view name;
  std::array<std::string_view, 2> axes;  // either; the second may be empty
  Values values = Values::any;
  enum Presence { wanted, allowed, optional } presence = wanted;  // allowed: required of callers or not, or left out
};

struct ReadParameters {
  std::array<ReadParameter, 5> all{};
  std::size_t count = 0;

  constexpr void add(const ReadParameter& parameter) { all[count++] = parameter; }
  constexpr const ReadParameter* begin() const { return all.data(); }
  constexpr const ReadParameter* end() const { return all.data() + count; }
  constexpr const ReadParameter* find(std::string_view name) const {
    for (const ReadParameter& each : *this)
      if (each.name == name) return &each;
    return nullptr;
  }
};

// What the walk of a law reads; its own function may read more.
constexpr ReadParameters parameters_read(const RecurrentLaw& law) {
  ReadParameters read;
  const bool by_channel = law.transition == Transition::per_channel;
  switch (law.walks) {
    case Walks::elements:
      read.add({"delta", {"BHNV"}, Values::at_least_0});
      read.add({"a", {"HDV|DV", "HDV"}, Values::below_0});
      read.add({"skip", {"HV|V", "HV"}, Values::any, ReadParameter::allowed});
      return read;
    case Walks::delta:
      read.add({"beta", {"BHN"}, Values::from_0_to_2});
      if (law.transition == Transition::per_token)
        read.add({"log_decay", {"BHN|BHND", "BHN"}, Values::at_most_0});
      else if (by_channel)
        read.add({"log_decay", {"BHND"}, Values::at_most_0});
      return read;
    case Walks::one:
      break;
  }
  if (law.transition == Transition::constant) read.add({"decay", {"H"}, Values::above_0_to_1});
  if (law.transition == Transition::per_token) read.add({"log_decay", {"BHN"}, Values::at_most_0});
  if (by_channel) read.add({"log_decay", {"BHND"}, Values::at_most_0});
  if (by_channel && law.normalizer == Normalizer::never)
    read.add({"log_value_decay", {"BHNV"}, Values::at_most_0, ReadParameter::allowed});
  if (law.features == Features::asked) read.add({"projection", {"HDR"}, Values::any, ReadParameter::optional});
  return read;
}

// The names of the contract's enumerators, as messages show them.
inline constexpr std::string_view walks_names[]{"one", "delta", "elements"};
inline constexpr std::string_view features_names[]{"identity", "own", "asked"};
inline constexpr std::string_view normalizer_names[]{"never", "asked", "always"};
inline constexpr std::string_view values_names[]{"any",     "number",  "at_most_0",    "at_least_0",
                                                 "below_0", "above_0", "above_0_to_1", "from_0_to_2"};

template <class Enum, std::size_t count>
constexpr std::string_view name_in(const std::string_view (&names)[count], Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : std::string_view("none of them");
}

constexpr LawFault fault_of_combination(const RecurrentLaw& law) {
  const std::string_view transition = name_in(transition_names, law.transition),
                         features = name_in(features_names, law.features),
                         normalizer = name_in(normalizer_names, law.normalizer);
  // What a law that does not make sums of written keys leaves alone.
  if (law.walks != Walks::one && law.features != Features::identity)
    return {"features", {}, "identity, for only the walk one has features", features};
  if (law.walks != Walks::one && law.normalizer != Normalizer::never)
    return {"normalizer", {}, "never, for only the walk one has a z", normalizer};
  if (law.walks == Walks::elements && law.transition != Transition::none)
    return {"transition", {}, "none, for elements have decays of their own", transition};
  if (law.walks == Walks::delta && law.transition == Transition::constant)
    return {"transition", {}, "none, per_token or per_channel for the walk delta", transition};
  if (law.features == Features::asked && law.transition == Transition::per_channel)
    return {"transition",
            {},
            "none, constant or per_token, as features that are asked for may change the channels",
            transition};
  if (!law.has_query && law.walks != Walks::elements)
    return {"has_query", {}, "true, for only the walk elements knows the width of a key without", "false"};
  // What only a function can make or give.
  if (law.run == nullptr) {
    if (!law.has_query || !law.has_key)
      return {"run", {}, "a function that makes what is in the place of a query or a key", "none"};
    if (law.features == Features::own) return {"run", {}, "a function that makes the features", "none"};
    if (!law.state.empty()) return {"run", {}, "a function that gives the state", "none"};
    if (law.over_all) return {"run", {}, "a function that may be over all tokens", "none"};
  } else if (law.walks == Walks::delta) {
    return {"run", {}, "none, for a delta rule is its walk", "a function"};
  }
  return {};
}

// Whether all letters are of `known`.
constexpr bool are_axes(std::string_view axes, std::string_view known) {
  for (const char axis : axes)
    if (known.find(axis) == std::string_view::npos) return false;
  return true;
}

constexpr LawFault fault_of_parameters(const RecurrentLaw& law) {
  const ReadParameters read = parameters_read(law);
  for (std::size_t i = 0; i < law.parameters.size(); ++i) {
    const RecurrentParameter& given = law.parameters[i];
    const ReadParameter* const known = read.find(given.name);
    for (std::size_t j = 0; j < i; ++j)
      if (law.parameters[j].name == given.name) return {given.name, {}, "to be listed once", "twice"};
    if (!are_axes(given.axes, "BHNDVSR|"))
      return {given.name, "axes", known ? known->axes[0] : "letters of BHNDVSR", given.axes};
    if (law.run != nullptr && (known == nullptr || law.walks != Walks::one)) continue;  // of the function
    if (known == nullptr) return {"parameters", {}, {}, given.name};
    if (given.axes != known->axes[0] && (known->axes[1].empty() || given.axes != known->axes[1]))
      return {given.name, "axes", known->axes[0], given.axes};
    if (given.values != known->values)
      return {given.name, "values", name_in(values_names, known->values), name_in(values_names, given.values)};
    if (known->presence == ReadParameter::wanted && !given.required) return {given.name, "required", "true", "false"};
    if (known->presence == ReadParameter::optional && given.required)
      return {given.name, "required", "false, as only random_fourier takes it", "true"};
  }
  for (const ReadParameter& each : read)
    if (each.presence != ReadParameter::allowed && !law.has_parameter(each.name))
      return {each.name, {}, "to be listed among the parameters, as the law reads it", "nothing"};
  for (const StatePart& part : law.state)
    if (!are_axes(part.axes, "2DVS")) return {part.name, "axes", "letters of DVS, or 2 before one", part.axes};
  return {};
}

constexpr LawFault fault_of(const RecurrentLaw& law) {
  if (law.name.empty()) return {"name", {}, "a text", "nothing"};
  if (law.title.empty()) return {"title", {}, "a text", "nothing"};
  if (law.formula.empty()) return {"formula", {}, "a text", "nothing"};
  for (const LawOption& option : law.options)
    if (!law.has_parameter(option.parameter))
      return {option.name, {}, "an option of a parameter that the law lists", option.parameter};
  if (const LawFault fault = fault_of_combination(law)) return fault;
  return fault_of_parameters(law);
}

// Throws UsageError, "<law>: <part>: expected …, got …", for the first thing that is wrong.
void check_recurrent_law(const RecurrentLaw& law);

}  // namespace cogwheel
