#include "cogwheel/tasks/language/written_text.h"

#include <gtest/gtest.h>

namespace cogwheel::tasks::language {
namespace {

TEST(WrittenText, ShowsWholeCharacters) {
  WrittenText writer({});
  EXPECT_EQ(writer.add("a\xF0\x9F"), "a");
  EXPECT_EQ(writer.add("\x99"), "");
  EXPECT_EQ(writer.add("\x82\xC3"), "\xF0\x9F\x99\x82");
  EXPECT_EQ(writer.add("("), "\xEF\xBF\xBD(");  // what was begun is no character
  EXPECT_EQ(writer.add("\xFF\xE2\x82"), "\xEF\xBF\xBD");
  EXPECT_EQ(writer.finish(), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(writer.finish(), "");
}

// However it comes, the text is that of all bytes at once.
TEST(WrittenText, DoesNotDependOnThePieces) {
  const std::string bytes = "\xE2\x82\xAC\xED\xA0\x80x\xF4\x90\x80\x80y\xC1\xE0\x9F\xF0\x9F\x98";
  WrittenText whole({});
  std::string expected = whole.add(bytes);
  expected += whole.finish();
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    WrittenText writer({});
    std::string got;
    for (std::size_t at = 0; at < bytes.size(); at += size) got += writer.add(bytes.substr(at, size));
    EXPECT_EQ(got + writer.finish(), expected) << size;
  }
}

TEST(WrittenText, EndsBeforeAStopStringThatSpansPieces) {
  WrittenText writer({"\n\n", "end."});
  EXPECT_EQ(writer.add("so it \nen"), "so it \n");  // "en" may become "end."
  EXPECT_EQ(writer.add("ds e"), "ends ");
  EXPECT_FALSE(writer.stopped());
  EXPECT_EQ(writer.add("nd. and more"), "");
  EXPECT_TRUE(writer.stopped());
  EXPECT_EQ(writer.add("more") + writer.finish(), "");
  WrittenText two({"bc", "abc"});
  EXPECT_EQ(two.add("xab"), "x");
  EXPECT_EQ(two.add("c"), "");  // the one that begins first
  EXPECT_TRUE(two.stopped());
  WrittenText none({"abc"});
  EXPECT_EQ(none.add("ab"), "");
  EXPECT_EQ(none.finish(), "ab");
}

}  // namespace
}  // namespace cogwheel::tasks::language
