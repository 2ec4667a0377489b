#include "cogwheel/core/files/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace cogwheel {
namespace {

template <class Function>
std::string refusal(Function function) {
  try {
    function();
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FolderLock, KeepsOthersOutWhileItIsHeld) {
  const TemporaryFolder temporary;
  const auto folder = temporary.path() / "new";
  auto lock = take_folder(folder, "run", false);
  EXPECT_EQ(folder_kind(folder), "run");
  const std::string locked =
      folder.string() + ": expected a run that is not in use, got one that another process is using";
  EXPECT_EQ(refusal([&] { FolderLock(folder, "run"); }), locked);
  EXPECT_EQ(refusal([&] { take_folder(folder, "run", true); }), locked);
  lock.reset();
  EXPECT_EQ(refusal([&] { FolderLock(folder, "run"); }), "accepted");
}

TEST(FolderLock, WaitsForOneThatIsHeld) {
  const TemporaryFolder temporary;
  auto held = take_folder(temporary.path(), "run", false);
  int tries = 0;
  EXPECT_THROW(FolderLock(temporary.path(), "run",
                          [&] {
                            if (++tries == 3) throw Error("enough");
                          }),
               Error);
  EXPECT_EQ(tries, 3);
  const FolderLock lock(temporary.path(), "run", [&] {
    ++tries;
    held.reset();
  });
  EXPECT_EQ(tries, 4);
  EXPECT_THROW(FolderLock(temporary.path(), "run"), Error);
}

TEST(FolderLock, IsGoneWithAProcessThatIsKilled) {
  const TemporaryFolder temporary;
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(temporary.path(), "run");
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(folder_kind(temporary.path()), "run");
  EXPECT_EQ(refusal([&] { FolderLock(temporary.path(), "run"); }), "accepted");
}

TEST(FolderLock, TellsBeforeWhetherAFolderCouldBeTaken) {
  const TemporaryFolder temporary;
  const auto file = temporary.write("file", "text");
  for (const auto& place : {temporary.path() / "new", temporary.path() / "new" / "below" / ""}) {
    EXPECT_EQ(refusal([&] { expect_makable(place); }), "accepted");
    EXPECT_EQ(refusal([&] { expect_room(place, "run", false); }), "accepted");
    EXPECT_FALSE(std::filesystem::exists(place));
  }
  for (const auto& place : {file, file / "below"})
    EXPECT_EQ(refusal([&] { expect_makable(place); }),
              place.string() + ": expected a folder that can be made, got a file of that name");
  EXPECT_EQ(refusal([&] { expect_room(temporary.path(), "run", false); }),
            temporary.path().string() + ": expected a new or empty folder (or --overwrite), got one that holds file");
}

TEST(FolderLock, TakesNoFolderThatHoldsWhatOthersWrote) {
  const TemporaryFolder temporary;
  temporary.write("thesis.txt", "mine");
  const std::string path = temporary.path().string();
  EXPECT_EQ(refusal([&] { take_folder(path, "run", false); }),
            path + ": expected a new or empty folder (or --overwrite), got one that holds thesis.txt");
  EXPECT_EQ(refusal([&] { take_folder(path, "run", true); }),
            path + ": expected a run to overwrite, got one that holds thesis.txt and no .cogwheel");
  EXPECT_EQ(folder_kind(path), "");
  EXPECT_EQ(read_file(temporary.path() / "thesis.txt"), "mine");
}

TEST(FolderLock, TellsOneKindFromTheOther) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path().string();
  take_folder(path, "comparison", false);
  take_folder(path, "run", false);  // nothing but a marker: it was never filled
  EXPECT_EQ(folder_kind(path), "run");
  temporary.write("config.toml", "");
  EXPECT_EQ(refusal([&] { take_folder(path, "comparison", true); }),
            path + ": expected a comparison to overwrite, got a run");
  EXPECT_EQ(refusal([&] { take_folder(path, "export", true); }), path + ": expected an export to overwrite, got a run");
  EXPECT_EQ(refusal([&] { FolderLock(path, "comparison"); }), path + ": expected a comparison, got a run");
}

TEST(FolderLock, RemovesItsOwnFilesAndWhatWasLeftOfThem) {
  const TemporaryFolder temporary;
  for (const char* name : {"config.toml", ".config.toml.123.part", ".config.toml.12x.part", ".config.toml..part",
                           ".other.123.part", "config.toml.123.part", "notes.txt"})
    temporary.write(name, "");
  const auto left = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(temporary.path()))
      names.insert(entry.path().filename().string());
    return names;
  };
  std::set<std::string> others = {".config.toml.12x.part", ".config.toml..part", ".other.123.part",
                                  "config.toml.123.part", "notes.txt"};
  remove_files(temporary.path(), {"config.toml", "missing"});
  EXPECT_EQ(left(), others);
}

}  // namespace
}  // namespace cogwheel
