// Which laws there can be: combinations of transition, write, read, walks, features and normaliser that the operator
// runs (ops/recurrent/recurrent.cpp), and the tensors that each of them reads. Built-in laws are checked while the
// catalogue is compiled, a user's when it is loaded.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

// The first thing that is wrong with a law.
struct LawFault {
  std::string_view part;           // transition, write, …, or a parameter's name; empty: nothing is wrong
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

constexpr ReadParameters parameters_read(const RecurrentLaw& law) {
  ReadParameters read;
  const bool by_input_gate = law.write == Write::key_by_input_gate;
  switch (law.walks) {
    case Walks::elements:
      if (law.write == Write::of_head) {
        read.add({"delta", {"HV"}, Values::at_least_0});
        read.add({"a", {"HDV"}, Values::below_0});
        read.add({"b", {"HDV"}});
        read.add({"c", {"HDV"}});
        read.add({"skip", {"HV"}, Values::any, ReadParameter::allowed});
      } else {
        read.add({"delta", {"BHNV"}, Values::at_least_0});
        read.add({"a", {"HDV|DV", "HDV"}, Values::below_0});
        read.add({"skip", {"HV|V", "HV"}, Values::any, ReadParameter::allowed});
      }
      return read;
    case Walks::slots:
      read.add({"phi", {"BHNS"}});
      read.add({"log_decay", {"BHNS"}, Values::at_most_0, ReadParameter::allowed});
      return read;
    case Walks::delta:
      read.add({"beta", {"BHN"}, Values::from_0_to_2});
      if (law.transition == Transition::per_token)
        read.add({"log_decay", {"BHN|BHND", "BHN"}, Values::at_most_0});
      else if (law.transition == Transition::per_channel)
        read.add({"log_decay", {"BHND"}, Values::at_most_0});
      return read;
    case Walks::phases:
      read.add({"horizon", {""}, Values::above_0});
      break;
    case Walks::one:
      break;
  }
  if (by_input_gate) {
    read.add({"input_gate", {"BHN"}, Values::number});
    read.add({"forget_gate", {"BHN"}, Values::number});
    return read;
  }
  if (law.transition == Transition::constant) read.add({"decay", {"H"}, Values::above_0_to_1});
  if (law.transition == Transition::per_token) read.add({"log_decay", {"BHN"}, Values::at_most_0});
  if (law.transition == Transition::per_channel) read.add({"log_decay", {"BHND"}, Values::at_most_0});
  if (law.read == Read::before_with_bonus)
    read.add({"bonus", {"HD"}});
  else if (law.normalizer == Normalizer::never && law.transition == Transition::per_channel)
    read.add({"log_value_decay", {"BHNV"}, Values::at_most_0, ReadParameter::allowed});
  if (law.features == Features::asked) read.add({"projection", {"HDR"}, Values::any, ReadParameter::optional});
  return read;
}

// The names of the contract's enumerators, as messages show them.
inline constexpr std::string_view write_names[]{"key", "key_by_complement", "key_by_input_gate", "complement",
                                                "of_head"};
inline constexpr std::string_view read_names[]{"after", "before_with_bonus", "of_head"};
inline constexpr std::string_view walks_names[]{"one", "phases", "delta", "slots", "elements"};
inline constexpr std::string_view features_names[]{"identity", "relu", "asked"};
inline constexpr std::string_view normalizer_names[]{"never", "asked", "always", "at_least_one"};
inline constexpr std::string_view values_names[]{"any",     "number",  "at_most_0",    "at_least_0",
                                                 "below_0", "above_0", "above_0_to_1", "from_0_to_2"};

template <class Enum, std::size_t count>
constexpr std::string_view name_in(const std::string_view (&names)[count], Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : std::string_view("none of them");
}

constexpr LawFault fault_of_combination(const RecurrentLaw& law) {
  const std::string_view transition = name_in(transition_names, law.transition),
                         write = name_in(write_names, law.write), read = name_in(read_names, law.read),
                         features = name_in(features_names, law.features),
                         normalizer = name_in(normalizer_names, law.normalizer);
  const bool sums = law.walks == Walks::one || law.walks == Walks::phases;
  // What a law that does not make sums of written keys leaves alone.
  if (!sums && law.features != Features::identity)
    return {"features", {}, "identity, for only the walks one and phases have features", features};
  if (!sums && law.normalizer != Normalizer::never)
    return {"normalizer", {}, "never, for only the walks one and phases have a z", normalizer};
  const bool decays_itself = law.walks == Walks::elements || law.walks == Walks::slots;
  if (decays_itself && law.transition != Transition::none)
    return {"transition", {}, "none, for elements and slots have decays of their own", transition};
  if (law.walks == Walks::delta && law.transition == Transition::constant)
    return {"transition", {}, "none, per_token or per_channel for the walk delta", transition};
  if (law.walks == Walks::phases && law.transition == Transition::per_channel)
    return {
        "transition", {}, "none, constant or per_token for the walk phases, which doubles the channels", transition};

  if (law.walks == Walks::elements) {
    if ((law.write == Write::of_head) != (law.read == Read::of_head))
      return {"read", {}, law.write == Write::of_head ? "of_head, as write" : "after, as write is not of_head", read};
    if (law.write != Write::of_head && law.write != Write::key)
      return {"write", {}, "key or of_head for the walk elements", write};
    if (law.read == Read::before_with_bonus) return {"read", {}, "after or of_head for the walk elements", read};
    return {};
  }
  if (law.write == Write::of_head) return {"write", {}, "one of keys: only the walk elements writes of_head", write};
  if (law.read == Read::of_head) return {"read", {}, "one of queries: only the walk elements reads of_head", read};
  if (law.walks != Walks::one && law.write != Write::key)
    return {"write", {}, "key, for only the walk one has other keys", write};
  if (law.walks != Walks::one && law.read != Read::after)
    return {"read", {}, "after, for only the walk one reads otherwise", read};

  const bool by_input_gate = law.write == Write::key_by_input_gate;
  if ((law.write == Write::key_by_complement || by_input_gate) && law.transition != Transition::per_token)
    return {"transition", {}, "per_token, as write makes a number of each token of it", transition};
  if (law.write == Write::complement && law.transition != Transition::per_channel)
    return {"transition", {}, "per_channel, which write makes keys of", transition};
  if (by_input_gate != (law.normalizer == Normalizer::at_least_one))
    return {"normalizer",
            {},
            by_input_gate ? "at_least_one, as exp(input_gate) has no bound" : "another without key_by_input_gate",
            normalizer};
  if (by_input_gate && law.features != Features::identity)
    return {"features", {}, "identity beside key_by_input_gate", features};
  if (law.features == Features::asked && law.transition == Transition::per_channel)
    return {"transition",
            {},
            "none, constant or per_token, as features that are asked for may change the channels",
            transition};
  if (law.read == Read::before_with_bonus && law.transition != Transition::per_channel)
    return {"transition", {}, "per_channel, for before_with_bonus", transition};
  if (law.read == Read::before_with_bonus && law.normalizer != Normalizer::never)
    return {"normalizer", {}, "never, as the bonus is no part of z", normalizer};
  return {};
}

constexpr LawFault fault_of_parameters(const RecurrentLaw& law) {
  const ReadParameters read = parameters_read(law);
  for (std::size_t i = 0; i < law.parameters.size(); ++i) {
    const RecurrentParameter& given = law.parameters[i];
    const ReadParameter* const known = read.find(given.name);
    if (known == nullptr) return {"parameters", {}, {}, given.name};
    for (std::size_t j = 0; j < i; ++j)
      if (law.parameters[j].name == given.name) return {given.name, {}, "to be listed once", "twice"};
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
  return {};
}

constexpr LawFault fault_of(const RecurrentLaw& law) {
  if (law.name.empty()) return {"name", {}, "a text", "nothing"};
  if (law.title.empty()) return {"title", {}, "a text", "nothing"};
  if (law.formula.empty()) return {"formula", {}, "a text", "nothing"};
  if (const LawFault fault = fault_of_combination(law)) return fault;
  return fault_of_parameters(law);
}

// Throws UsageError, "<law>: <part>: expected …, got …", for the first thing that is wrong.
void check_recurrent_law(const RecurrentLaw& law);

}  // namespace cogwheel
