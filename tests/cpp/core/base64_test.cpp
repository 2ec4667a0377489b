#include "cogwheel/core/encoding/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cogwheel {
namespace {

std::string encoded(std::string_view text) {
  return base64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

TEST(Base64, TestVectorsOfRfc4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xff\xfe\xfd"), "//79");
}

TEST(Base64, GivesTheBytesBack) {
  for (const char* text : {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\xff\xfe\xfd"})
    EXPECT_EQ(from_base64(encoded(text)), text);
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Zg=", "Zg", "Zg==Zg==", "Z===", "====", "Zm9*", "Zm9v\n"})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace cogwheel
