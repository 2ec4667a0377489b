#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "cogwheel/research/labs/labs.h"
#include "cogwheel/research/reproduce/reproduction.h"

namespace cogwheel::reproduce {
namespace {

std::string refusal(const std::string& toml) {
  try {
    parse_lab_experiment(toml, "s2/x", "x.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(LabExperiment, IsReadFromToml) {
  LabExperiment experiment = parse_lab_experiment(
      "lab = \"hopfield\"\nsection = \"Dimensions\"\n[parameters]\nsizes = [64, 128]\nerror_size = 100\nloads = [0.1, "
      "0.2]",
      "s2/x", "x.toml");
  EXPECT_EQ(experiment.lab->name, "hopfield");
  EXPECT_EQ(experiment.section, "Dimensions");
  EXPECT_EQ(experiment.parameters.wholes("sizes"), (std::vector<std::int64_t>{64, 128}));
  EXPECT_EQ(experiment.parameters.numbers("loads"), (std::vector<double>{0.1, 0.2}));
  set_parameters(experiment, {.experiment = {}, .set = {"seed=7", "sizes=16"}});
  EXPECT_EQ(experiment.parameters.whole("seed"), 7);
  EXPECT_EQ(experiment.parameters.wholes("sizes"), std::vector<std::int64_t>{16});
  // All of them or none.
  EXPECT_THROW(set_parameters(experiment, {.experiment = {}, .set = {"seed=8", "sizes=1"}}), UsageError);
  EXPECT_EQ(experiment.parameters.whole("seed"), 7);
}

TEST(LabExperiment, RefusesInOneLine) {
  EXPECT_EQ(refusal("lab = \"hopfeld\""), "x.toml: lab: expected hopfield (the nearest of " +
                                              std::to_string(labs::labs().size()) + " names), got hopfeld");
  EXPECT_EQ(refusal("lab = \"hopfield\"\nsections = 1"),
            "x.toml: key: expected section (the nearest of 5 names), got sections");
  EXPECT_EQ(refusal("lab = \"hopfield\"\n[parameters]\nseed = \"a\""),
            "x.toml: seed: expected a whole number from 0 to 1000000000000000, got \"a\"");
  EXPECT_EQ(refusal("lab = \"hopfield\"\n[parameters]\nseed = 1.5"),
            "x.toml: seed: expected a whole number from 0 to 1000000000000000, got 1.5");
  EXPECT_TRUE(refusal("lab = ").starts_with("x.toml: expected TOML, got "));
  EXPECT_TRUE(refusal("").starts_with("x.toml: lab: expected "));
}

}  // namespace
}  // namespace cogwheel::reproduce
