#include "cogwheel/attention/authoring/user_header.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cogwheel/attention/authoring/headers.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace cogwheel::authoring {
namespace {

class UserHeaderTest : public testing::Test {
 protected:
  // The error from reading a header of that text, without the folder.
  std::string refusal(const std::string& name, const std::string& text) const {
    write_file(folder_.path() / name, text);
    return refusal(name);
  }
  std::string refusal(const std::string& name) const {
    try {
      read_user_header(folder_.path() / name);
    } catch (const Error& error) {
      const std::string message = error.what(), path = folder_.path().string() + "/";
      return message.starts_with(path) ? message.substr(path.size()) : message;
    }
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(UserHeaderTest, LinesOfAnyLengthAreRead) {
  const std::string space(400000, ' ');
  EXPECT_EQ(refusal("mine.h", "struct" + space + "Mine" + space + "{};"), "");
  EXPECT_EQ(refusal("mine.h", space + "\nstruct Mine {};"), "");
  EXPECT_EQ(refusal("mine.h", "#" + space + "include" + space + "\"other.h\"\nstruct Mine {};").substr(0, 90),
            "mine.h:1: expected a mechanism in one file, with headers of cogwheel/ or in <>, got #     ");
  EXPECT_EQ(refusal("mine.h", std::string(400000, '\n')),
            "mine.h: expected struct Mine, named after the file, got none");
  EXPECT_EQ(refusal("mine.h", ""), "mine.h: expected struct Mine, named after the file, got none");
  EXPECT_EQ(refusal("mine.h", std::string(1 << 20, ' ') + "struct Mine {};"),
            "mine.h: expected a header of at most 1 MiB, got 1048591 bytes");
}

TEST_F(UserHeaderTest, WhatIsNoHeaderIsRefused) {
  EXPECT_EQ(refusal("mine.h", "struct MineToo {};"), "mine.h: expected struct Mine, named after the file, got none");
  EXPECT_EQ(refusal("mine.h", "#include \"cogwheel/attention/mechanisms/lane.h\"\n#include <cmath>\nstruct Mine {};"),
            "");
  std::filesystem::create_directory(folder_.path() / "folder.h");
  EXPECT_EQ(refusal("folder.h"), "folder.h: expected a file, got a folder");
  EXPECT_EQ(refusal("row.h", "struct Row {};"),
            "mechanism: expected a name whose struct Cogwheel's own headers leave free, got row: "
            "cogwheel/attention/mechanisms/contract.h has a Row");
}

TEST(DeclaresType, ReadsWholeWords) {
  EXPECT_TRUE(declares_type("struct  Row {", "Row"));
  EXPECT_TRUE(declares_type("concept Row = true;", "Row"));
  EXPECT_FALSE(declares_type("struct Rows { Row row; }; restruct Row", "Row"));
  EXPECT_FALSE(declares_type("template <class Row, class T>", "Row"));
}

}  // namespace
}  // namespace cogwheel::authoring
