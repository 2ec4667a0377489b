#include "cogwheel/data/corpus.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/sha256.h"
#include "core/temporary_folder.h"

namespace cogwheel {
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
}  // namespace cogwheel
