#include "cogwheel/core/files/atomic_file.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "core/temporary_folder.h"

namespace cogwheel {
namespace {

std::ptrdiff_t entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(AtomicFile, ReplacesTheFileAsAWhole) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  write_file(path, "new contents");
  EXPECT_EQ(read_file(path), "new contents");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(AtomicFile, LeavesTheOldFileUntilCommitted) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  {
    AtomicFile file(path);
    file.write("half of it");
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(entries(folder.path()), 2);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(AtomicFile, RefusesWithTheReasonOfTheSystem) {
  try {
    write_file("/proc/no-such-folder/file", "text");
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "/proc/no-such-folder/file: expected a file that can be written, got No such file or directory");
  }
}

}  // namespace
}  // namespace cogwheel
