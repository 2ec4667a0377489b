#include <gtest/gtest.h>

#include <algorithm>

#include "cli/process.h"
#include "core/temporary_folder.h"

namespace cogwheel {
namespace {

void expect_refused(const std::vector<std::string>& arguments, int exit_code, const std::string& message) {
  const TemporaryFolder folder;
  const Outcome outcome = cogwheel(arguments, folder.path());
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.errors;
  EXPECT_TRUE(outcome.errors.starts_with("cogwheel: " + message)) << outcome.errors;
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
}

TEST(CommandLine, NamesTheNearest) {
  expect_refused({"trian"}, 2, "command: expected train");
  expect_refused({}, 2, "command: expected one of ");
  expect_refused({"train", "--txt", "a"}, 2, "train: option: expected --text");
  expect_refused({"list", "mechanism"}, 2, "list: expected mechanisms (the nearest of 5 names), got mechanism");
  expect_refused({"train", "nanogpt-shakespear"}, 2, "config: expected a file, or an experiment: nanogpt-shakespeare");
  expect_refused({"train", "nanogpt-shakespeare", "--set", "model.mechanism=sofmax"}, 2,
                 "model.mechanism: expected softmax");
}

TEST(CommandLine, RefusesArgumentsThatDoNotFit) {
  expect_refused({"train"}, 2, "train: expected config, got nothing");
  expect_refused({"sample", "run", "--length", "many"}, 2,
                 "--length: expected a whole number from 0 to 1000000, got many");
  expect_refused({"sample", "run", "--temperature", "-1"}, 2, "--temperature: expected at least 0, got -1");
  expect_refused({"compare", "--resume", ""}, 2, "comparison: expected the folder of a comparison, got nothing");
  expect_refused({"compare", "--text", ""}, 2, "--text: expected a file or folder, got nothing");
  // Beyond 64 bits.
  expect_refused({"sample", "run", "--length", "99999999999999999999"}, 2,
                 "--length: expected at most 1000000, got 99999999999999999999");
  expect_refused({"compare", "--seeds", "18446744073709551616"}, 2,
                 "--seeds: expected at most 1000, got 18446744073709551616");
  expect_refused({"compare", "--steps", "99999999999999999999"}, 2,
                 "--steps: expected at most 100000000, got 99999999999999999999");
  expect_refused({"sample", "run"}, 1, "run: expected the folder of a run, got no config.toml in it");
  expect_refused({"resume", "nowhere"}, 1, "nowhere: expected the folder of a run, got no config.toml in it");
}

TEST(CommandLine, ShowsHelp) {
  const TemporaryFolder folder;
  const Outcome outcome = cogwheel({"--help"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0);
  std::size_t position = 0;
  for (const char* command : {"train ", "resume ", "sample ", "list "}) {
    position = outcome.output.find(std::string("\n  ") + command, position);
    ASSERT_NE(position, std::string::npos) << command;
  }
  for (const char* command : {"train", "resume", "sample", "list"})
    EXPECT_EQ(cogwheel({command, "--help"}, folder.path()).exit_code, 0) << command;
}

TEST(CommandLine, ListsWhatThereIs) {
  const TemporaryFolder folder;
  const Outcome mechanisms = cogwheel({"list", "mechanisms"}, folder.path());
  EXPECT_EQ(mechanisms.exit_code, 0);
  for (const char* name : {"\nsoftmax ", "\ncog ", "\ndifferential ", "\nsymmetric ", "\ngla ", "centered_cog, … ("})
    EXPECT_NE(mechanisms.output.find(name), std::string::npos) << name;
  const Outcome everything = cogwheel({"list"}, folder.path());
  EXPECT_EQ(everything.exit_code, 0);
  for (const char* word : {"mechanisms\n", "softmax", "experiments\n", "nanogpt-shakespeare", "kernels\n", "float32"})
    EXPECT_NE(everything.output.find(word), std::string::npos) << word;
  EXPECT_NE(cogwheel({"list", "kernels"}, folder.path()).output.find("float32"), std::string::npos);
  EXPECT_NE(cogwheel({"list", "experiments"}, folder.path()).output.find("nanogpt-shakespeare"), std::string::npos);
}

}  // namespace
}  // namespace cogwheel
