#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/core/error.h"
#include "support/usage_error_of.h"

namespace cogwheel {
namespace {

constexpr RecurrentParameter per_token[]{{"log_decay", "BHN", Values::at_most_0}};
constexpr RecurrentLaw leaky{.name = "leaky",
                             .title = "Leaky",
                             .transition = Transition::per_token,
                             .write = Write::key_by_complement,
                             .parameters = per_token,
                             .formula = "S",
                             .citation = "a test"};
static_assert(!fault_of(leaky));

std::string refusal(const RecurrentLaw& law) {
  return usage_error_of([&] { check_recurrent_law(law); });
}

std::string refusal_with(std::vector<RecurrentParameter> parameters) {
  RecurrentLaw law = leaky;
  law.parameters = parameters;
  return refusal(law);
}

template <class Change>
std::string refusal_after(const Change& change) {
  RecurrentLaw law = leaky;
  change(law);
  return refusal(law);
}

TEST(RecurrentLaw, ParametersAreThoseThatTheLawReads) {
  EXPECT_EQ(refusal(leaky), "nothing thrown");
  EXPECT_EQ(refusal_with({}),
            "leaky: log_decay: expected to be listed among the parameters, as the law reads it, got nothing");
  EXPECT_EQ(refusal_with({{"log_dekay", "BHN", Values::at_most_0}}),
            "leaky: parameters: expected log_decay, got log_dekay");
  EXPECT_EQ(refusal_with({{"log_decay", "BHX", Values::at_most_0}}), "leaky: log_decay: axes: expected BHN, got BHX");
  EXPECT_EQ(refusal_with({{"log_decay", "", Values::at_most_0}}), "leaky: log_decay: axes: expected BHN, got none");
  EXPECT_EQ(refusal_with({{"log_decay", "BHN", Values::any}}), "leaky: log_decay: values: expected at_most_0, got any");
  EXPECT_EQ(refusal_with({{"log_decay", "BHN", Values::at_most_0, false}}),
            "leaky: log_decay: required: expected true, got false");
  EXPECT_EQ(refusal_with({per_token[0], per_token[0]}), "leaky: log_decay: expected to be listed once, got twice");
  EXPECT_EQ(refusal_with({per_token[0], {"beta", "BHN", Values::from_0_to_2}}),
            "leaky: parameters: expected log_decay, got beta");
}

TEST(RecurrentLaw, PartsThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.title = ""; }), "leaky: title: expected a text, got nothing");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.transition = Transition::per_channel; }),
            "leaky: transition: expected per_token, as write makes a number of each token of it, got per_channel");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.write = Write::complement; }),
            "leaky: transition: expected per_channel, which write makes keys of, got per_token");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.walks = Walks::phases; }),
            "leaky: write: expected key, for only the walk one has other keys, got key_by_complement");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.walks = Walks::phases;
              law.transition = Transition::per_channel;
            }),
            "leaky: transition: expected none, constant or per_token for the walk phases, which doubles the channels, "
            "got per_channel");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.walks = Walks::elements; }),
            "leaky: transition: expected none, for elements and slots have decays of their own, got per_token");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.normalizer = Normalizer::at_least_one; }),
            "leaky: normalizer: expected another without key_by_input_gate, got at_least_one");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.read = Read::before_with_bonus; }),
            "leaky: transition: expected per_channel, for before_with_bonus, got per_token");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.read = Read::of_head; }),
            "leaky: read: expected one of queries: only the walk elements reads of_head, got of_head");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.walks = Walks::delta;
              law.features = Features::relu;
            }),
            "leaky: features: expected identity, for only the walks one and phases have features, got relu");
}

TEST(RecurrentLaw, EveryBuiltInOneIsSound) {
  for (const Mechanism& mechanism : mechanisms()) {
    const RecurrentLaw* law = mechanism.recurrent();
    EXPECT_TRUE(law == nullptr || refusal(*law) == "nothing thrown") << mechanism.description.name;
  }
}

TEST(RecurrentLaw, WhatUsersAddIsCopiedAndStays) {
  const std::size_t before = all_mechanisms().size();
  std::string name = "leaky_one", formula = "S_t", axes = "BHN";
  std::vector<RecurrentParameter> parameters{{"log_decay", axes, Values::at_most_0}};
  RecurrentLaw given = leaky;
  given.name = name, given.formula = formula, given.parameters = parameters;
  const Mechanism& added = add_recurrent_law(given, "leaky_one: one");
  name = formula = axes = "gone";
  parameters.clear();
  const RecurrentLaw* law = find_recurrent_law("leaky_one");
  ASSERT_EQ(law, added.recurrent());
  EXPECT_EQ(law->formula, "S_t");
  EXPECT_EQ(law->parameters[0].axes, "BHN");
  EXPECT_EQ(added.description.family, "recurrent");
  EXPECT_EQ(added.description.parameters, "log_decay");
  EXPECT_EQ(added.definition, "leaky_one: one");
  EXPECT_EQ(all_mechanisms().size(), before + 1);  // no form combines with it
  EXPECT_EQ(mechanism_names().back(), "leaky_one");

  given.name = "leaky_one", given.formula = "S", given.parameters = per_token;
  EXPECT_EQ(&add_recurrent_law(given, "leaky_one: one"), &added);
  EXPECT_TRUE(is_added("leaky_one", "leaky_one: one"));
  EXPECT_THROW(add_recurrent_law(given, "leaky_one: two"), UsageError);
  given.name = "gla";
  EXPECT_THROW(add_recurrent_law(given, "gla: mine"), UsageError);
  given.name = "leaky_two", given.write = Write::complement;
  EXPECT_THROW(add_recurrent_law(given, "leaky_two: one"), UsageError);
  EXPECT_EQ(find_recurrent_law("leaky_two"), nullptr);
}

}  // namespace
}  // namespace cogwheel
