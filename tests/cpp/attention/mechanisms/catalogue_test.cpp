#include "cogwheel/attention/mechanisms/catalogue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

TEST(Catalogue, EveryEntryIsDescribedAndNamesAreUnique) {
  std::set<std::string_view> names;
  for (const Mechanism& mechanism : all_mechanisms()) {
    const Description& d = mechanism.description;
    EXPECT_TRUE(names.insert(d.name).second) << d.name;
    for (std::string_view text : {d.name, d.title, d.family, d.level, d.formula, d.range, d.citation})
      EXPECT_FALSE(text.empty()) << d.name;
    EXPECT_EQ(&find_mechanism(d.name), &mechanism) << d.name;
    if (mechanism.is_matrix()) {
      EXPECT_EQ(d.level, "dense") << d.name;
      EXPECT_EQ(mechanism.operator_name, d.name);
      continue;
    }
    if (const RecurrentLaw* law = mechanism.recurrent()) {
      EXPECT_EQ(d.family, "recurrent") << d.name;
      EXPECT_EQ(d.level, "operator") << d.name;
      EXPECT_EQ(mechanism.operator_name, d.name);
      EXPECT_EQ(find_recurrent_law(d.name), law);
      continue;
    }
    EXPECT_EQ(find_recurrent_law(d.name), nullptr);
    EXPECT_TRUE(d.level == "operator" || d.level == "layer") << d.name;
    EXPECT_TRUE(find_mechanism(mechanism.pairwise()->member).is_row_map()) << d.name;
    EXPECT_EQ(find_mechanism(mechanism.operator_name).description.level, "operator") << d.name;
  }
}

TEST(Catalogue, BaseEntriesComeFirst) {
  ASSERT_LT(mechanisms().size(), all_mechanisms().size());
  for (std::size_t i = 0; i < mechanisms().size(); ++i) {
    EXPECT_EQ(&mechanisms()[i], &all_mechanisms()[i]);
    EXPECT_EQ(mechanism_names()[i], mechanisms()[i].description.name);
  }
}

TEST(Catalogue, FormsCombineWithEveryRowMapThatReadsScores) {
  std::size_t forms = 0, maps = 0, others = 0;
  for (const Mechanism& mechanism : mechanisms()) {
    forms += mechanism.pairwise() != nullptr && mechanism.pairwise()->is_form();
    maps += mechanism.is_row_map();
    others += mechanism.pairwise() == nullptr;
  }
  EXPECT_EQ(all_mechanisms().size(), maps + forms * (maps - 1) + others);  // uniform combines with none
  EXPECT_THROW(find_mechanism("differential_uniform"), UsageError);
  EXPECT_THROW(find_mechanism("differential_gla"), UsageError);

  const Mechanism& cog = find_mechanism("differential_cog");
  EXPECT_EQ(cog.pairwise()->form, "differential");
  EXPECT_EQ(cog.pairwise()->member, "cog");
  EXPECT_EQ(cog.operator_name, "differential_cog");
  EXPECT_EQ(cog.sub_heads(), 2);
  EXPECT_EQ(cog.description.title, "Differential Cog");
  EXPECT_EQ(cog.description.formula, "cog₁ - λ cog₂");
  EXPECT_EQ(cog.description.parameters, "lam");

  const Mechanism& tied = find_mechanism("differential_symmetric_sigmoid");
  EXPECT_TRUE(tied.ties_keys);
  EXPECT_EQ(tied.operator_name, "differential_sigmoid");
  EXPECT_EQ(tied.description.level, "layer");
  EXPECT_EQ(tied.description.parameters, "shift, lam");
  EXPECT_EQ(tied.pairwise()->parameter_defaults.size(), 1u);

  EXPECT_EQ(find_mechanism("differential").operator_name, "differential");
  EXPECT_EQ(find_mechanism("symmetric").operator_name, "softmax");
  EXPECT_EQ(find_mechanism("symmetric_norm").description.score, "cosine");
  EXPECT_TRUE(find_mechanism("symmetric_norm").takes_cosines());
  EXPECT_EQ(find_mechanism("centered_cog").pairwise()->subtracted, "uniform");
}

TEST(Catalogue, UnknownNamesGetTheNearest) {
  try {
    find_mechanism("sofmax", "--attention");
    FAIL() << "found sofmax";
  } catch (const UsageError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("--attention: expected softmax"), std::string::npos) << message;
    EXPECT_NE(message.find("got sofmax"), std::string::npos) << message;
  }
  try {
    find_mechanism("symetric_cog");
    FAIL() << "found symetric_cog";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("expected symmetric_cog"), std::string::npos) << error.what();
  }
}

// A user's map, as the catalogue sees it.
AddedMap added_map(std::string_view name, std::string_view definition) {
  static constexpr double defaults[] = {0.5};
  return {.description = {.name = name,
                          .title = "Mine",
                          .family = "pairwise",
                          .level = "operator",
                          .parameters = "tau",
                          .formula = "exp(tau s) / Σ exp(tau s)",
                          .range = "weights in [0, 1]",
                          .citation = "a user"},
          .has_energy = true,
          .parameter_defaults = defaults,
          .parameter_initial = defaults,
          .scalar = find_mechanism("softmax").pairwise()->scalar,
          .definition = definition};
}

TEST(Catalogue, WhatUsersAddStandsThereWithEveryForm) {
  const std::size_t before = all_mechanisms().size();
  const Mechanism* softmax = &find_mechanism("softmax");
  std::string name = "mine";
  const Mechanism& mine = add_mechanism(added_map(name, "mine: one"));
  name = "gone";  // texts are copied
  EXPECT_EQ(mine.description.name, "mine");
  EXPECT_EQ(&find_mechanism("mine"), &mine);
  EXPECT_EQ(&find_mechanism("softmax"), softmax);
  EXPECT_EQ(mine.pairwise()->member, "mine");
  EXPECT_EQ(mine.pairwise()->parameter_defaults[0], 0.5);
  const Mechanism& difference = find_mechanism("differential_mine");
  EXPECT_EQ(difference.pairwise()->member, "mine");
  EXPECT_EQ(difference.description.parameters, "tau, lam");
  EXPECT_TRUE(find_mechanism("symmetric_mine").ties_keys);
  EXPECT_EQ(all_mechanisms().size(), before + 5);
  EXPECT_EQ(mechanism_names().back(), "mine");

  EXPECT_TRUE(is_added("mine", "mine: one"));
  EXPECT_EQ(&add_mechanism(added_map("mine", "mine: one")), &mine);
  EXPECT_EQ(all_mechanisms().size(), before + 5);
}

TEST(Catalogue, TakenNamesAreRefused) {
  add_mechanism(added_map("taken", "taken: one"));
  const auto refusal = [](std::string_view name) -> std::string {
    try {
      add_mechanism(added_map(name, "another"));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("cog").find("got cog, which is built in"), std::string::npos) << refusal("cog");
  EXPECT_NE(refusal("taken").find("which is defined already: taken: one"), std::string::npos) << refusal("taken");
  EXPECT_NE(refusal("differential_taken"), "");
  EXPECT_FALSE(is_added("free", "free: one"));
  // differential_symmetric over x is symmetric_x's difference too.
  add_mechanism(added_map("x", "x: one"));
  EXPECT_NE(refusal("symmetric_x"), "");
}

TEST(Catalogue, ThreadsMayAddAndReadAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      for (int i = 0; i < 50; ++i) {
        // Two threads add each name.
        const std::string name = "thread_" + std::to_string(thread / 2) + "_" + std::to_string(i);
        const Mechanism& added = add_mechanism(added_map(name, name));
        EXPECT_EQ(&find_mechanism(name), &added);
        for (const Mechanism& mechanism : all_mechanisms()) ASSERT_FALSE(mechanism.description.name.empty());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(find_mechanism("centered_thread_1_49").pairwise()->member, "thread_1_49");
}

}  // namespace
}  // namespace cogwheel
