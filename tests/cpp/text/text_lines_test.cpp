#include "cogwheel/text/text_lines.h"

#include <gtest/gtest.h>

#include "cogwheel/core/random.h"
#include "support/error_of.h"
#include "support/gzip.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

using Lines = std::vector<std::string>;

TEST(TextLines, EndsOfLinesAndByteOrderMarksAreLeftOut) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& contents) { return read_text_lines(folder.write("a", contents)).lines; };
  EXPECT_EQ(read("one\ntwo\n"), (Lines{"one", "two"}));
  EXPECT_EQ(read("one\r\ntwo\r\n"), (Lines{"one", "two"}));
  EXPECT_EQ(read("\xef\xbb\xbfone\n\ntwo"), (Lines{"one", "", "two"}));
  EXPECT_EQ(read("\n\xef\xbb\xbf\n"), (Lines{"", "\xef\xbb\xbf"}));  // text, in the middle
  EXPECT_EQ(read(""), Lines{});
}

TEST(TextLines, CompressedTextIsTheSameText) {
  const TemporaryFolder folder;
  std::string contents;
  for (int line = 0; line < 20000; ++line) contents += "Zwei Männer, " + std::to_string(line) + "\n";
  const TextLines plain = read_text_lines(folder.write("a", contents));
  const std::string compressed = gzipped(contents, folder.path() / "a.gz");
  const TextLines unpacked = read_text_lines(folder.path() / "a.gz");
  EXPECT_EQ(unpacked.lines, plain.lines);
  EXPECT_EQ(unpacked.sha256, plain.sha256);
  EXPECT_EQ(unpacked.bytes, std::ssize(contents));
  // By its contents, not its name; and of several parts, as `cat a.gz b.gz` makes.
  EXPECT_EQ(read_text_lines(folder.write("b", compressed + compressed)).lines.size(), 40000u);
}

TEST(TextLines, RefusalsNameFileAndLine) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& contents) {
    const auto path = folder.write("a.de", contents);
    std::string message = error_of([&] { read_text_lines(path); });
    EXPECT_TRUE(message.starts_with(path.string())) << message;
    return message.substr(std::min(message.size(), path.string().size()));
  };
  EXPECT_EQ(refusal("gut\nsch\xf6n\n"), ", line 2: expected text in UTF-8, got byte 0xF6 at byte 4 of the line");
  EXPECT_EQ(refusal(std::string("a\0b\n", 4)), ", line 1: expected text in UTF-8, got byte 0x00 at byte 2 of the line");
  const std::string compressed = gzipped("eins\nzwei\ndrei\n", folder.path() / "a.gz");
  EXPECT_EQ(refusal(compressed.substr(0, 20)),
            ": expected a text file, got the start of a compressed one: the file was cut off");
  std::string damaged = compressed;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  EXPECT_NE(refusal(damaged).find("damaged compression"), std::string::npos);
  EXPECT_EQ(error_of([&] { read_text_lines(folder.path() / "none"); }),
            (folder.path() / "none").string() + ": expected a text file, got No such file or directory");
  EXPECT_EQ(error_of([&] { read_text_lines(folder.path()); }),
            folder.path().string() + ": expected a text file, got Is a directory");
}

// Any bytes, any cut and any damage: lines of text, or one line that says why not.
TEST(TextLines, SurvivesAnyBytes) {
  const TemporaryFolder folder;
  const std::string compressed = gzipped("Ein Hund läuft.\nZwei Katzen schlafen.\n", folder.path() / "a.gz");
  for (std::uint64_t turn = 0; turn < 200; ++turn) {
    std::uint64_t drawn = 0;
    const auto draw = [&](std::uint64_t bound) { return bounded(random_of({turn, drawn++}), bound); };
    std::string bytes = turn % 3 == 0 ? "" : compressed;
    if (turn % 3 == 0)
      for (auto left = draw(40); left > 0; --left) bytes.push_back(static_cast<char>(draw(256)));
    if (turn % 3 == 1) bytes.resize(draw(bytes.size()));
    if (turn % 3 == 2) bytes[draw(bytes.size())] = static_cast<char>(draw(256));
    const auto path = folder.write("bytes", bytes);
    const std::string message = error_of([&] { read_text_lines(path); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_TRUE(message.empty() || message.starts_with(path.string())) << message;
  }
}

}  // namespace
}  // namespace cogwheel::text
