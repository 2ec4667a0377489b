#include "cogwheel/mechanisms/catalogue.h"

#include <gtest/gtest.h>

#include <set>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

TEST(Catalogue, EveryEntryIsDescribedAndNamesAreUnique) {
  std::set<std::string_view> names;
  for (const Mechanism& mechanism : mechanisms()) {
    const Description& d = mechanism.description;
    EXPECT_TRUE(names.insert(d.name).second) << d.name;
    for (std::string_view text : {d.name, d.title, d.family, d.level, d.formula, d.range, d.citation})
      EXPECT_FALSE(text.empty()) << d.name;
    EXPECT_TRUE(d.level == "operator" || d.level == "layer") << d.name;
    EXPECT_EQ(find_mechanism(mechanism.member).kind, MechanismKind::row_map) << d.name;
  }
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
}

}  // namespace
}  // namespace cogwheel
