#include "cogwheel/core/files/scratch_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "cogwheel/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace cogwheel {
namespace {

TEST(ScratchFolder, IsRemovedWithWhatItHolds) {
  const TemporaryFolder parent;
  {
    const ScratchFolder folder(parent.path());
    write_file(folder / "file", "text");
    EXPECT_EQ(folder.path().parent_path(), parent.path());
  }
  EXPECT_TRUE(std::filesystem::is_empty(parent.path()));
}

TEST(ScratchFolder, SaysWhyThereIsNone) {
  const TemporaryFolder parent;
  const std::string nowhere = (parent.path() / "nowhere").string();
  const auto refusal = [](auto make) {
    try {
      make();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([&] { ScratchFolder folder{nowhere}; }),
            nowhere + ": expected a folder that can be written, got No such file or directory");
  const char* before = ::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", nowhere.c_str(), 1);
  EXPECT_EQ(refusal([] { ScratchFolder folder; }), "TMPDIR: expected a folder, got No such file or directory");
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace cogwheel
