#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

TEST(KernelTable, HasEveryRowMapForEveryCompleteInstructionSetAndType) {
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> rows;
  for (const KernelEntry& entry : available_kernels()) rows.insert({entry.mechanism, entry.isa, entry.dtype});
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.pairwise() == nullptr) continue;
    for (const InstructionSet& set : instruction_sets())
      for (std::string_view dtype : {"float32", "bfloat16", "float16", "float64"})
        EXPECT_TRUE(!set.complete || rows.contains({mechanism.pairwise()->member, set.name, dtype}))
            << mechanism.pairwise()->member << " " << set.name;
  }
}

TEST(KernelTable, IsCompleteForWhatThisMachineRunsBest) {
  EXPECT_TRUE(instruction_sets().front().supported);
  EXPECT_TRUE(instruction_sets().front().complete);
}

TEST(KernelTable, SaysWhereABuildForAnotherMachineLacksAKernel) {
  const InstructionSet& last = instruction_sets().back();
  if (last.complete) GTEST_SKIP() << "every instruction set that was built is complete";
  try {
    pairwise_kernel<float>("cubic", cpu_device, last.name);
    FAIL() << "cubic is not among the few maps of an incomplete instruction set";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("COGWHEEL_ALL_ISAS"), std::string::npos) << error.what();
  }
}

TEST(KernelTable, ChoosesOneKernelPerMechanismAndType) {
  std::multiset<std::pair<std::string_view, std::string_view>> chosen;
  for (const KernelEntry& entry : available_kernels())
    if (entry.chosen) chosen.insert({entry.mechanism, entry.dtype});
  for (const KernelEntry& entry : available_kernels()) EXPECT_EQ(chosen.count({entry.mechanism, entry.dtype}), 1u);
}

TEST(KernelTable, ALowerInstructionSetCanBeForced) {
  EXPECT_EQ(supported_isa("portable"), "portable");
  EXPECT_EQ(supported_isa(), instruction_sets().front().name);
}

// The environment is read once: a change while the process runs must not mix instruction sets.
TEST(KernelTable, ReadsTheEnvironmentOnce) {
  const std::string_view chosen = chosen_isa();
  ASSERT_NE(setenv("COGWHEEL_ISA", chosen == "portable" ? "avx1024" : "portable", 1), -1);
  EXPECT_EQ(chosen_isa(), chosen);
  unsetenv("COGWHEEL_ISA");
}

TEST(KernelTable, RefusesInstructionSetsThatTheMachineLacks) { EXPECT_THROW(supported_isa("avx1024"), UsageError); }

TEST(KernelTable, NamesWhatHasNoKernel) {
  try {
    pairwise_kernel<float>("differential");
    FAIL() << "a mixture has a kernel of its own";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("no kernel for mechanism differential"), std::string::npos);
  }
}

TEST(KernelTable, NamesADeviceWithoutKernels) {
  try {
    pairwise_kernel<float>("cog", "steam", "portable");
    FAIL() << "a device that nobody has has a kernel";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "no kernel for mechanism cog on steam, portable, float32");
  }
}

}  // namespace
}  // namespace cogwheel
