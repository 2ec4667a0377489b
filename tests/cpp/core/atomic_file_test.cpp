#include "cogwheel/core/files/atomic_file.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "support/temporary_folder.h"

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

TEST(AtomicFile, IsOverwrittenInPlace) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  AtomicFile file(path);
  file.write("length ????, numbers");
  file.overwrite(7, "0020");
  file.write(" and more");
  file.commit();
  EXPECT_EQ(read_file(path), "length 0020, numbers and more");
}

TEST(AtomicFile, IsFinishedBeforeItIsCommitted) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old"), other = folder.write("other", "old");
  {
    AtomicFile file(path), discarded(other);
    file.write("new");
    discarded.write("new");
    file.finish();
    discarded.finish();
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(entries(folder.path()), 4);
    file.commit();
  }
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(read_file(other), "old");
  EXPECT_EQ(entries(folder.path()), 2);
}

TEST(AtomicFile, TellsBeforeWhetherItCouldBeWritten) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  expect_writable(path);
  expect_writable(folder.path() / "new");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(folder.path()), 1);
  for (const auto& [place, reason] :
       {std::pair(folder.path(), "a folder"), std::pair(folder.path() / "none" / "file", "No such file or directory"),
        std::pair(path / "below", "Not a directory")})
    try {
      expect_writable(place);
      ADD_FAILURE() << place;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), place.string() + ": expected a file that can be written, got " + reason);
    }
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
