#include "cogwheel/research/labs/labs.h"

#include <gtest/gtest.h>

namespace cogwheel::labs {
namespace {

TEST(Labs, HaveDefaultsWithinTheirRanges) {
  for (const LabEntry& lab : labs())
    for (const LabParameter& parameter : lab.parameters.all()) {
      LabParameters copy = lab.parameters;
      EXPECT_NO_THROW(copy.set(parameter.name, parameter.text(), lab.name)) << lab.name << " " << parameter.name;
      EXPECT_TRUE(copy.same(lab.parameters, {parameter.name})) << lab.name << " " << parameter.name;
    }
}

}  // namespace
}  // namespace cogwheel::labs
