#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/recurrent_call.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/core/error.h"
#include "support/usage_error_of.h"

namespace cogwheel {
namespace {

constexpr RecurrentParameter per_token[]{{"log_decay", "BHN", Values::at_most_0}};
LawOutcome leaky_run(const LawCall& call) {
  LawWalk walk = call.walk();
  walk.key = weighted(walk.key, -expm1(walk.decay));
  return call.walked(walk);
}
constexpr RecurrentLaw leaky{.name = "leaky",
                             .title = "Leaky",
                             .transition = Transition::per_token,
                             .parameters = per_token,
                             .run = leaky_run,
                             .formula = "S",
                             .citation = "a test"};
static_assert(!fault_of(leaky));

std::string refusal(const RecurrentLaw& law) {
  return usage_error_of([&] { check_recurrent_law(law); });
}

template <class Change>
std::string refusal_after(const Change& change) {
  RecurrentLaw law = leaky;
  change(law);
  return refusal(law);
}

TEST(RecurrentLaw, ParametersAreThoseThatTheLawReads) {
  for (const bool with_function : {false, true}) {
    const auto refusal_with = [&](std::vector<RecurrentParameter> parameters) {
      RecurrentLaw law = leaky;
      if (!with_function) law.run = nullptr;
      law.parameters = parameters;
      return refusal(law);
    };
    EXPECT_EQ(refusal_with({{"log_decay", "BHN", Values::at_most_0}}), "nothing thrown");
    EXPECT_EQ(refusal_with({{"log_decay", "BHX", Values::at_most_0}}), "leaky: log_decay: axes: expected BHN, got BHX");
    EXPECT_EQ(refusal_with({{"log_decay", "", Values::at_most_0}}), "leaky: log_decay: axes: expected BHN, got none");
    EXPECT_EQ(refusal_with({{"log_decay", "BHN", Values::any}}),
              "leaky: log_decay: values: expected at_most_0, got any");
    EXPECT_EQ(refusal_with({{"log_decay", "BHN", Values::at_most_0, false}}),
              "leaky: log_decay: required: expected true, got false");
    EXPECT_EQ(refusal_with({per_token[0], per_token[0]}), "leaky: log_decay: expected to be listed once, got twice");
    EXPECT_EQ(refusal_with({per_token[0], {"beta", "BHN", Values::from_0_to_2}}),
              with_function ? "leaky: parameters: expected those that its function reads, got beta"
                            : "leaky: parameters: expected log_decay, got beta");
  }
  const std::string missing =
      "leaky: log_decay: expected to be listed among the parameters, as the law reads it, got nothing";
  const std::vector<RecurrentParameter> misspelt{{"log_dekay", "BHN", Values::at_most_0}};
  RecurrentLaw law = leaky;
  law.parameters = misspelt;
  EXPECT_EQ(refusal(law), missing);
  law.run = nullptr;
  EXPECT_EQ(refusal(law), "leaky: parameters: expected log_decay, got log_dekay");
  law.parameters = {};
  EXPECT_EQ(refusal(law), missing);
}

// What a function asks for, and gives, is seen before any tensor is.
TEST(RecurrentLaw, AFunctionIsHeldToWhatItsLawSays) {
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.run = [](const LawCall& call) {
                LawOutcome outcome = call.walked(call.walk());
                outcome.output = call["gate"] * outcome.output;
                return outcome;
              };
            }),
            "leaky: a law's function: expected one of its parameters, got gate");
  static constexpr StatePart two[]{{"S", "DV"}, {"m", ""}}, wrong[]{{"S", "DX"}};
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.state = two; }),
            "leaky: state: expected 1 parts, as its function gives, got 2");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.state = wrong; }),
            "leaky: S: axes: expected letters of DVS, or 2 before one, got DX");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.run = [](const LawCall&) { return LawOutcome(); }; }),
            "leaky: run: expected an output, got none");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.run = [](const LawCall& call) {
                LawWalk walk = call.walk();
                walk.reads_before = true;
                return call.walked(walk);
              };
            }),
            "leaky: transition: expected per_channel, for a walk that reads before it writes, got per_token");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.run = [](const LawCall& call) {
                LawWalk walk = call.walk();
                walk.decay = LawTensor();
                return call.walked(walk);
              };
            }),
            "leaky: transition: expected none, or a decay for its walk, got per_token without log_decay");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.has_key = false; }),
            "leaky: a law's function: expected a tensor, got none");
}

TEST(RecurrentLaw, PartsThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.title = ""; }), "leaky: title: expected a text, got nothing");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.transition = Transition::constant; }),
            "leaky: decay: expected to be listed among the parameters, as the law reads it, got nothing");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.walks = Walks::elements; }),
            "leaky: transition: expected none, for elements have decays of their own, got per_token");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.walks = Walks::delta; }),
            "leaky: run: expected none, for a delta rule is its walk, got a function");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.walks = Walks::delta;
              law.features = Features::asked;
            }),
            "leaky: features: expected identity, for only the walk one has features, got asked");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) {
              law.features = Features::asked;
              law.transition = Transition::per_channel;
            }),
            "leaky: transition: expected none, constant or per_token, as features that are asked for may change the "
            "channels, got per_channel");
  EXPECT_EQ(refusal_after([](RecurrentLaw& law) { law.has_query = false; }),
            "leaky: has_query: expected true, for only the walk elements knows the width of a key without, got false");
  const auto without_function = [](const auto& change) {
    RecurrentLaw law = leaky;
    law.run = nullptr;
    change(law);
    return refusal(law);
  };
  EXPECT_EQ(without_function([](RecurrentLaw& law) { law.has_key = false; }),
            "leaky: run: expected a function that makes what is in the place of a query or a key, got none");
  EXPECT_EQ(without_function([](RecurrentLaw& law) { law.features = Features::own; }),
            "leaky: run: expected a function that makes the features, got none");
  EXPECT_EQ(without_function([](RecurrentLaw& law) { law.over_all = true; }),
            "leaky: run: expected a function that may be over all tokens, got none");
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
  given.name = "leaky_two", given.has_key = false;
  EXPECT_THROW(add_recurrent_law(given, "leaky_two: one"), UsageError);
  EXPECT_EQ(find_recurrent_law("leaky_two"), nullptr);
}

}  // namespace
}  // namespace cogwheel
