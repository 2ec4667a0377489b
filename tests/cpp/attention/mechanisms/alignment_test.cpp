#include "cogwheel/attention/mechanisms/alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/usage_error_of.h"

namespace cogwheel {
namespace {

TEST(AlignmentNames, AreAKindOrAKindAndARowMap) {
  const Alignment plain = find_alignment("luong_general_local_p");
  EXPECT_EQ(plain.kind->name, "luong_general_local_p");
  EXPECT_EQ(plain.kind->window, AlignmentWindow::around_prediction);
  EXPECT_EQ(plain.map->description.name, "softmax");
  const Alignment cog = find_alignment("luong_dot_cog");
  EXPECT_EQ(cog.kind->name, "luong_dot");
  EXPECT_EQ(cog.kind->window, AlignmentWindow::whole);
  EXPECT_EQ(cog.map->description.name, "cog");
  EXPECT_EQ(find_alignment("bahdanau_softmax").name(), "bahdanau");
  EXPECT_EQ(find_alignment("luong_dot_local_m_softmax_off_by_one").title(), "Luong dot, local-m, Softmax off by one");
  EXPECT_TRUE(find_alignment("none").is_none());
  EXPECT_EQ(find_alignment("none").map, nullptr);
  EXPECT_EQ(find_alignment("luong_dot_norm").map->description.name, "norm");
}

TEST(AlignmentNames, OnlyBahdanauReadsTheStateBeforeTheStep) {
  for (const AlignmentKind& kind : alignment_kinds()) EXPECT_EQ(kind.before_step, kind.name == "bahdanau") << kind.name;
}

TEST(AlignmentNames, AreAllFoundAgain) {
  const std::vector<std::string> names = alignment_names();
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_EQ(find_alignment(name).name(), name);
  for (const std::string name : {"none", "bahdanau", "bahdanau_cog", "luong_general_local_p_sigmoid",
                                 "luong_concat_local_m_centered", "luong_dot_consmax"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  for (const std::string name : {"none_cog", "bahdanau_norm", "bahdanau_differential", "bahdanau_symmetric_cog",
                                 "luong_dot_gla", "luong_dot_polynomial", "bahdanau_softmax"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 0) << name;
}

TEST(AlignmentNames, RefuseWithTheNearestInOneLine) {
  const auto refused = [](const char* name) { return usage_error_of([&] { find_alignment(name, "--attention"); }); };
  EXPECT_EQ(refused("bahdanow").find("--attention: expected bahdanau (the nearest of "), 0U) << refused("bahdanow");
  EXPECT_NE(refused("luong_dot_gog").find("luong_dot_cog"), std::string::npos) << refused("luong_dot_gog");
  EXPECT_EQ(refused("").find("--attention: expected one of none, bahdanau, luong_dot, "), 0U) << refused("");
  EXPECT_EQ(refused("softmax").find("--attention: expected "), 0U);
  EXPECT_EQ(refused("bahdanau_norm"),
            "--attention: expected a row map of any score (norm reads cosines), got bahdanau_norm");
  EXPECT_EQ(refused("luong_dot_gla"),
            "--attention: expected a row map (gla is none) after luong_dot, got luong_dot_gla");
  EXPECT_EQ(refused("bahdanau_differential_cog"),
            "--attention: expected a row map (differential_cog is none) after bahdanau, got bahdanau_differential_cog");
}

}  // namespace
}  // namespace cogwheel
