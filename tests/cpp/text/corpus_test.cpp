#include "cogwheel/text/corpus.h"

#include <gtest/gtest.h>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/text_record.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

void expect_refused(const std::vector<std::filesystem::path>& paths, const std::string& part) {
  try {
    load_corpus(paths);
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(error.exit_code(), 1);
  }
}

TEST(Corpus, ReadsAFolderInSortedOrder) {
  const TemporaryFolder folder;
  folder.write("b.txt", "second ");
  folder.write("a/z.txt", "first ");
  folder.write("c.txt", "third");
  folder.write(".hidden", "never");
  folder.write(".git/config", "never");
  folder.write("empty.txt", "");
  const Corpus corpus = load_corpus({folder.path()});
  EXPECT_EQ(corpus.text, "first second third");
  EXPECT_EQ(corpus.sha256, sha256(corpus.text));
  ASSERT_EQ(corpus.files.size(), 3u);
  EXPECT_EQ(corpus.files[1].path, folder.path() / "b.txt");
  EXPECT_EQ(corpus.files[1].offset, 6);
  EXPECT_EQ(corpus.files[1].bytes, 7);
}

TEST(Corpus, LeavesOutWhatIsNoTextOfTheUser) {
  const TemporaryFolder folder;
  folder.write("a.txt", "text");
  const auto picture = folder.write("picture.png", std::string("\x89PNG\0", 5));
  folder.write("late.bin", std::string(100'000, 'x') + std::string(1, '\0'));
  folder.write("runs/one/report.html", "its own");
  folder.write("runs/one/.cogwheel", "comparison\n");
  folder.write("runs/one/trained/x/config.toml", "its own");
  std::filesystem::create_directory_symlink("one", folder.path() / "runs/latest");
  const Corpus corpus = load_corpus({folder.path()});
  EXPECT_EQ(corpus.text, "text");
  ASSERT_EQ(corpus.files.size(), 1u);
  EXPECT_EQ(corpus.files[0].sha256, sha256("text"));
  ASSERT_EQ(corpus.left_out.size(), 3u);
  EXPECT_EQ(corpus.left_out[0].path, folder.path() / "late.bin");
  EXPECT_EQ(corpus.left_out[0].what, "binary file");
  EXPECT_EQ(corpus.left_out[1].path, picture);
  EXPECT_EQ(corpus.left_out[2].path, folder.path() / "runs/one");
  EXPECT_EQ(corpus.left_out[2].what, "comparison");
  EXPECT_EQ(load_corpus({picture}).text.size(), 5u);  // a file that is named explicitly is taken
  expect_refused({folder.path() / "runs/one"}, "expected a folder with text, got the folder of a comparison");
  std::filesystem::remove(folder.path() / "a.txt");
  expect_refused({folder.path()}, "expected text, got nothing but what is left out");
}

// One copy would be learned from, the other held out.
TEST(Corpus, ReadsCopiesOnce) {
  const TemporaryFolder folder;
  const auto first = folder.write("a.txt", "one "), other = folder.write("b.txt", "two!"),
             copy = folder.write("deep/a.txt", "one "), again = folder.write("z.txt", "one ");
  const Corpus corpus = load_corpus({folder.path()});
  EXPECT_EQ(corpus.text, "one two!");
  EXPECT_EQ(corpus.sha256, sha256(corpus.text));
  EXPECT_EQ(corpus.files.size(), 2u);
  Dataset data;
  data.left_out = corpus.left_out;
  EXPECT_EQ(left_out_text(data), "2 duplicate files (" + copy.string() + ", " + again.string() + ")");
  // Also where they are given, and where a limit cuts what would be a part of a copy.
  EXPECT_EQ(load_corpus({first, copy, first}).text, "one ");
  EXPECT_EQ(load_corpus({folder.path(), folder.path()}).text, "one two!");
  EXPECT_EQ(load_corpus({first, copy, other}, 6).text, "one tw");
  EXPECT_EQ(load_corpus({first, other, copy}, 6).left_out.size(), 0u);
}

// Links to themselves, in a circle, and to nothing are said; the rest is read.
TEST(Corpus, LeavesOutLinksThatLeadNowhere) {
  const TemporaryFolder folder;
  folder.write("a.txt", "text");
  folder.write("deep/b.txt", " more");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  std::filesystem::create_symlink("there", folder.path() / "deep/here");
  std::filesystem::create_symlink("here", folder.path() / "deep/there");
  std::filesystem::create_symlink("missing.txt", folder.path() / "gone.txt");
  std::filesystem::create_symlink("a.txt", folder.path() / "z.txt");
  std::filesystem::create_directory_symlink("..", folder.path() / "deep/above");
  const Corpus corpus = load_corpus({folder.path()});
  EXPECT_EQ(corpus.text, "text more");
  ASSERT_EQ(corpus.left_out.size(), 5u);
  for (const LeftOut& each : corpus.left_out)
    EXPECT_EQ(each.what, each.path == folder.path() / "z.txt" ? "duplicate file" : "broken link") << each.path;
}

TEST(Corpus, ReadsNoMoreThanItsLimit) {
  const TemporaryFolder folder;
  const auto path = folder.write("long.txt", "text");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // a hole, which would take a minute or all memory
  EXPECT_EQ(load_corpus({path}, 4).text, "text");
  EXPECT_EQ(load_corpus({folder.write("a.txt", "12"), path}, 6).text, "12text");
}

TEST(TextRecord, SaysWhatHasChanged) {
  const TemporaryFolder folder;
  folder.write("b.txt", "second ");
  const auto first = folder.write("a.txt", "first ");
  folder.write("c.bin", std::string(1, '\0'));
  Dataset data;
  const Corpus corpus = load_corpus({folder.path()});
  data.files = corpus.files;
  data.left_out = corpus.left_out;
  EXPECT_EQ(left_out_text(data), "1 binary file (" + (folder.path() / "c.bin").string() + ")");
  const auto record = folder.write(".record", text_record(data));
  const auto change = [&] { return first_change(record, load_corpus({folder.path()}).files); };
  EXPECT_EQ(change(), "");
  folder.write("b.txt", "other ");
  EXPECT_EQ(change(), (folder.path() / "b.txt").string() + " has changed");
  folder.write("aa.txt", "more");
  EXPECT_EQ(change(), (folder.path() / "aa.txt").string() + " is new");
  std::filesystem::remove(folder.path() / "aa.txt");
  folder.write("b.txt", "second ");
  std::filesystem::remove(first);
  EXPECT_EQ(change(), first.string() + " is gone");
  folder.write("a.txt", "first ");
  folder.write("b.txt", "first ");  // a copy, which is left out
  EXPECT_EQ(change(), (folder.path() / "b.txt").string() + " is not read any more");
  EXPECT_EQ(first_change(folder.path() / "missing", corpus.files), "");
  EXPECT_EQ(first_change(folder.write(".record", "{\"files\": 3}"), corpus.files), "");
}

TEST(Corpus, TakesFilesAsGiven) {
  const TemporaryFolder folder;
  const auto first = folder.write("z", "one "), second = folder.write("a", "two");
  EXPECT_EQ(load_corpus({first, second}).text, "one two");
  EXPECT_EQ(load_corpus({first, second}).name, "z, a");
}

TEST(Corpus, StopsAtTheLimitBetweenCharacters) {
  const TemporaryFolder folder;
  const auto path = folder.write("text", "ab€€");  // € takes three bytes
  EXPECT_EQ(load_corpus({path}, 5).text, "ab€");
  EXPECT_EQ(load_corpus({path}, 6).text, "ab€");
  EXPECT_EQ(load_corpus({path}, 7).text, "ab€");
  EXPECT_EQ(load_corpus({path}, 8).text, "ab€€");
  EXPECT_EQ(load_corpus({path, folder.write("more", "more")}, 8).text, "ab€€");
}

TEST(Corpus, RefusesWhatHoldsNoText) {
  const TemporaryFolder folder;
  expect_refused({folder.path() / "missing.txt"}, "text: expected a file or folder, got none at");
  expect_refused({folder.write("empty.txt", "")}, "empty.txt: expected text, got an empty file");
  std::filesystem::create_directory(folder.path() / "bare");
  expect_refused({folder.path() / "bare"}, "expected a folder with text, got one without files");
  // Exists, and cannot be read even by root.
  expect_refused({"/proc/self/mem"}, "/proc/self/mem: expected a file that can be read, got Input/output error");
}

TEST(PythonLibrary, IsTheSameTextEachTime) {
  constexpr std::int64_t limit = 300'000;
  const Corpus first = load_python_standard_library(limit), second = load_python_standard_library(limit);
  EXPECT_EQ(first.sha256, second.sha256);
  EXPECT_EQ(first.bytes(), limit);
  EXPECT_TRUE(first.name.starts_with("Python 3.")) << first.name;
  EXPECT_TRUE(std::is_sorted(first.files.begin(), first.files.end(),
                             [](const auto& a, const auto& b) { return a.path.string() < b.path.string(); }));
  for (const auto& file : first.files) {
    EXPECT_EQ(file.path.extension(), ".py");
    EXPECT_EQ(file.path.string().find("site-packages"), std::string::npos) << file.path;
  }
}

}  // namespace
}  // namespace cogwheel::text
