#include "cogwheel/tasks/translation/translation_scores.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>

#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/process.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::translation {
namespace {

namespace fs = std::filesystem;

// COGWHEEL_PYTHON for one test.
class PythonIs {
 public:
  explicit PythonIs(const std::string& path) : before_(environment_python()) {
    ::setenv("COGWHEEL_PYTHON", path.c_str(), 1);
  }
  ~PythonIs() { ::setenv("COGWHEEL_PYTHON", before_.c_str(), 1); }

 private:
  std::string before_;
};

// A program that answers with a text, and fails with that status.
std::string answering(const TemporaryFolder& folder, const std::string& text, int status = 0) {
  const fs::path path =
      folder.write("python", "#!/bin/sh\ncat <<'END'\n" + text + "\nEND\necho 'last words' >&2\nexit " +
                                 std::to_string(status) + "\n");
  fs::permissions(path, fs::perms::owner_all);
  return path.string();
}

const std::vector<std::string> texts{"the cat sat on a mat", "a dog runs in the park now", "two men"};
const std::vector<std::int64_t> lengths{6, 7, 2};

std::string problem_of(const std::string& python) {
  const PythonIs use(python);
  const TranslationScoring scoring = translation_scores(texts, texts, lengths);
  EXPECT_FALSE(scoring.scores);
  return scoring.problem;
}

TEST(TranslationScores, SayWhyThereAreNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(problem_of(answering(folder, R"({"missing": "sacrebleu", "python": "/env/bin/python"})")),
            "BLEU and chrF: expected sacrebleu, which `/env/bin/python -m pip install sacrebleu` installs, got no "
            "Python module sacrebleu");
  EXPECT_EQ(problem_of(answering(folder, "", 1)), "BLEU and chrF: expected an answer of sacrebleu, got last words");
  EXPECT_TRUE(problem_of(answering(folder, "{}")).starts_with("BLEU and chrF: expected an answer of sacrebleu, got "));
  EXPECT_TRUE(problem_of("/no/python").starts_with("BLEU and chrF: expected sacrebleu, a package of Python, got "));
}

TEST(TranslationScores, RefusesCorporaThatDiffer) {
  EXPECT_EQ(usage_error_of([] { translation_scores(texts, std::vector<std::string>{"a"}, lengths); }),
            "translations to score: expected 3 at least 1, as references, got 1, and 3 source lengths");
}

TEST(TranslationScores, AreThoseOfSacrebleuByLength) {
  const std::string python = COGWHEEL_TEST_PYTHON;
  if (!fs::exists(python) || run_program({python, "-c", "import sacrebleu"}).status != 0)
    GTEST_SKIP() << "no sacrebleu in the environment of " << python;
  const PythonIs use(python);
  const std::vector<std::string> references{"the cat sat on a mat", "A dog runs in the park now",
                                            "two men are here today", "the cat sat on a mat"};
  const std::vector<std::string> hypotheses{"the cat sat on a mat", "", "two men were here today", "\xff"};
  const TranslationScoring scoring =
      translation_scores(references, hypotheses, std::vector<std::int64_t>{6, 9, 5, 5}, 2);
  ASSERT_TRUE(scoring.scores) << scoring.problem;
  EXPECT_NE(scoring.scores->bleu.signature.find("tok:13a"), std::string::npos);
  EXPECT_GT(scoring.scores->chrf.score, 0);
  ASSERT_EQ(scoring.scores->by_length.size(), 2u);
  const ScoreByLength &shorter = scoring.scores->by_length[0], &longer = scoring.scores->by_length[1];
  EXPECT_EQ(shorter.shortest, 5);
  EXPECT_EQ(shorter.longest, 5);
  EXPECT_EQ(longer.shortest, 6);
  EXPECT_EQ(longer.longest, 9);
  EXPECT_EQ(longer.sentences, 2);
  // 6 of 13 words, all right: brevity alone takes from 100.
  EXPECT_NEAR(longer.bleu.score, 100 * std::exp(1 - 13.0 / 6.0), 1e-6);
  EXPECT_LT(shorter.bleu.score, 50);
}

TEST(TranslationScores, CountsWords) {
  EXPECT_EQ(word_count(""), 0);
  EXPECT_EQ(word_count("  \t"), 0);
  EXPECT_EQ(word_count(" Zwei  Männer\tlaufen. "), 3);
}

}  // namespace
}  // namespace cogwheel::tasks::translation
