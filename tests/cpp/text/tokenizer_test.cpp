#include "cogwheel/text/tokenizer.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

const std::string sample = "naïve café, λ → 😀\n";

template <class Failure, class Function>
void expect_refused(Function function, const std::string& message) {
  try {
    function();
    ADD_FAILURE() << "accepted; expected: " << message;
  } catch (const Failure& error) {
    EXPECT_EQ(error.what(), message);
  }
}

TEST(Tokenizer, GivesTheTextBack) {
  for (const auto& kind : tokenizer_names()) {
    const auto tokenizer = make_tokenizer(kind, sample);
    EXPECT_EQ(tokenizer->kind(), kind);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(sample)), sample) << kind;
  }
}

TEST(Tokenizer, CountsCharactersAndBytes) {
  EXPECT_EQ(make_tokenizer("character", sample)->encode(sample).size(), 18u);
  EXPECT_EQ(make_tokenizer("byte", sample)->encode(sample).size(), sample.size());
  EXPECT_EQ(make_tokenizer("character", "hello")->vocabulary(), 4);
  // Sorted: e h l o.
  EXPECT_EQ(make_tokenizer("character", "hello")->encode("hello"), (std::vector<Token>{1, 0, 2, 2, 3}));
  EXPECT_EQ(make_tokenizer("byte", "")->vocabulary(), 256);
}

TEST(Tokenizer, RoundTripsThroughItsFile) {
  const TemporaryFolder folder;
  for (const auto& kind : tokenizer_names()) {
    const auto tokenizer = make_tokenizer(kind, sample);
    const auto path = folder.path() / "tokenizer.json";
    save_tokenizer(*tokenizer, path);
    const auto loaded = load_tokenizer(path);
    EXPECT_EQ(loaded->kind(), kind);
    EXPECT_EQ(loaded->vocabulary(), tokenizer->vocabulary());
    EXPECT_EQ(loaded->encode(sample), tokenizer->encode(sample));
  }
}

TEST(Tokenizer, RefusesADamagedFile) {
  const TemporaryFolder folder;
  for (const std::string contents :
       {"", "[]", "{\"kind\": \"word\"}", "{\"kind\": \"character\", \"characters\": \"ba\"}"})
    EXPECT_THROW(load_tokenizer(folder.write("tokenizer.json", contents)), Error) << contents;
}

TEST(Tokenizer, NamesTheByteThatIsNoText) {
  const auto refused = [](const std::string& bytes, const std::string& got) {
    expect_refused<Error>([&] { make_tokenizer("character", bytes, "photo.png"); },
                          "photo.png: expected text in UTF-8 (other files: tokenizer \"byte\"), got " + got);
  };
  refused("abc\x89PNG", "byte 0x89 at offset 3");
  refused(std::string("ab\0c", 4), "byte 0x00 at offset 2");
  refused("\xc0\xaf", "byte 0xC0 at offset 0");          // overlong
  refused("x\xed\xa0\x80", "byte 0xED at offset 1");     // surrogate
  refused("\xf4\x90\x80\x80", "byte 0xF4 at offset 0");  // beyond Unicode
  refused("ok \xe2\x82", "byte 0xE2 at offset 3");       // cut short
}

TEST(Tokenizer, NamesTheCharacterThatItLacks) {
  const auto tokenizer = make_tokenizer("character", "abc");
  expect_refused<Error>([&] { tokenizer->encode("ab€", "--prompt"); },
                        "--prompt: expected one of the 3 characters of the training text, got '€' (U+20AC) at byte 2");
  EXPECT_THROW(tokenizer->decode(std::vector<Token>{3}), Error);
}

TEST(Tokenizer, NamesTheNearestKind) {
  expect_refused<UsageError>([] { make_tokenizer("bytes", "abc"); },
                             "tokenizer: expected byte (the nearest of 3 names), got bytes");
}

}  // namespace
}  // namespace cogwheel::text
