#include "cogwheel/core/process/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "cogwheel/core/error.h"
#include "cogwheel/core/process/program_until_stopped.h"
#include "support/temporary_folder.h"

namespace cogwheel {
namespace {

Finished shell(const std::string& line, const Process::Options& options = {}) {
  return run_program({"sh", "-c", line}, options);
}

TEST(Process, KeepsWhatItWritesAndHowItEnds) {
  const Finished finished = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(finished.output, "out\n");
  EXPECT_EQ(finished.errors, "err\n");
  EXPECT_EQ(finished.status, 3);
  EXPECT_EQ(shell("kill -TERM $$").status, 128 + 15);
  const Finished both = shell("echo out; echo err >&2; echo more", {.errors_in_output = true});
  EXPECT_EQ(both.output, "out\nerr\nmore\n");
  EXPECT_EQ(both.errors, "");
}

// More of either than a pipe holds.
TEST(Process, KeepsLongOutputsOfBoth) {
  const Finished finished = shell("head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero");
  EXPECT_EQ(finished.output.size(), 200000U);
  EXPECT_EQ(finished.errors.size(), 300000U);
}

TEST(Process, ReadsNothing) { EXPECT_EQ(shell("cat; echo end").output, "end\n"); }

TEST(Process, TakesWordsAsTheyAre) {
  EXPECT_EQ(run_program({"printf", "%s|", "a b", "it's", "$HOME", ""}).output, "a b|it's|$HOME||");
}

TEST(Process, HasTheEnvironmentAndTheFolderThatItIsGiven) {
  ::setenv("COGWHEEL_TEST_NAME", "before", 1);
  const std::string line = "echo \"$COGWHEEL_TEST_NAME $COGWHEEL_TEST_NAME_TOO\"";
  ::setenv("COGWHEEL_TEST_NAME_TOO", "kept", 1);
  EXPECT_EQ(shell(line).output, "before kept\n");
  EXPECT_EQ(shell(line, {.environment = {"COGWHEEL_TEST_NAME=after"}}).output, "after kept\n");
  ::unsetenv("COGWHEEL_TEST_NAME");
  ::unsetenv("COGWHEEL_TEST_NAME_TOO");
  const TemporaryFolder folder;
  EXPECT_EQ(shell("pwd -P", {.folder = folder.path()}).output,
            std::filesystem::canonical(folder.path()).string() + "\n");
}

TEST(ProgramUntilStopped, LeavesInterruptsToThisProcess) {
  EXPECT_EQ(run_until_stopped({"sh", "-c", "kill -INT $$; echo still here"}, {}, "stopped").output, "still here\n");
  EXPECT_EQ(run_until_stopped({"sh", "-c", "exit 3"}, {}, "stopped").status, 3);
}

// The program signals this process, and would do so for ever.
TEST(ProgramUntilStopped, EndsWithThisProcess) {
  for (const char* signal : {"TERM", "INT"}) {
    // Again and again: SIGINT is ignored until the program has started.
    const std::string line = std::string("while kill -") + signal + " $PPID; do sleep 0.1; done";
    try {
      run_until_stopped({"sh", "-c", line}, {}, "stopped");
      FAIL() << signal;
    } catch (const Interrupted& error) {
      EXPECT_STREQ(error.what(), "stopped");
    }
  }
}

TEST(Process, IsInterrupted) {
  const Process::Options options;
  Process process({"sleep", "60"}, options);
  process.interrupt();
  EXPECT_EQ(process.wait().status, 128 + 2);
}

TEST(Process, RefusesAProgramThatDoesNotStart) {
  try {
    run_program({"no-such-program-anywhere", "x"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "no-such-program-anywhere: expected a program that starts, got No such file or directory");
  }
}

}  // namespace
}  // namespace cogwheel
