#include "cogwheel/mechanisms/catalogue.h"

#include <gtest/gtest.h>

#include <set>

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
    if (mechanism.kind == MechanismKind::dense) {
      EXPECT_EQ(d.level, "dense") << d.name;
      EXPECT_EQ(mechanism.operator_name, d.name);
      continue;
    }
    EXPECT_TRUE(d.level == "operator" || d.level == "layer") << d.name;
    EXPECT_EQ(find_mechanism(mechanism.member).kind, MechanismKind::row_map) << d.name;
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
  std::size_t forms = 0, maps = 0, dense = 0;
  for (const Mechanism& mechanism : mechanisms()) {
    forms += mechanism.kind == MechanismKind::form;
    maps += mechanism.kind == MechanismKind::row_map;
    dense += mechanism.kind == MechanismKind::dense;
  }
  EXPECT_EQ(all_mechanisms().size(), maps + forms * (maps - 1) + dense);  // uniform combines with none
  EXPECT_THROW(find_mechanism("differential_uniform"), UsageError);

  const Mechanism& cog = find_mechanism("differential_cog");
  EXPECT_EQ(cog.form, "differential");
  EXPECT_EQ(cog.member, "cog");
  EXPECT_EQ(cog.operator_name, "differential_cog");
  EXPECT_EQ(cog.sub_heads, 2);
  EXPECT_EQ(cog.description.title, "Differential Cog");
  EXPECT_EQ(cog.description.formula, "cog₁ - λ cog₂");
  EXPECT_EQ(cog.description.parameters, "lam");

  const Mechanism& tied = find_mechanism("differential_symmetric_sigmoid");
  EXPECT_TRUE(tied.ties_keys);
  EXPECT_EQ(tied.operator_name, "differential_sigmoid");
  EXPECT_EQ(tied.description.level, "layer");
  EXPECT_EQ(tied.description.parameters, "shift, lam");
  EXPECT_EQ(tied.parameter_defaults.size(), 1u);

  EXPECT_EQ(find_mechanism("differential").operator_name, "differential");
  EXPECT_EQ(find_mechanism("symmetric").operator_name, "softmax");
  EXPECT_EQ(find_mechanism("symmetric_norm").description.score, "cosine");
  EXPECT_EQ(find_mechanism("centered_cog").subtracted, "uniform");
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

}  // namespace
}  // namespace cogwheel
