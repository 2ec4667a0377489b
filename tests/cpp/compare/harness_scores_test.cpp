#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cogwheel/compare/harness/continuation_questions.h"
#include "cogwheel/compare/harness/published_scores.h"
#include "cogwheel/compare/harness/scores_page.h"
#include "cogwheel/compare/harness/task_scores.h"
#include "cogwheel/compare/statistics/mcnemar.h"
#include "cogwheel/core/error.h"

namespace cogwheel::compare {
namespace {

std::string numbered_words(std::int64_t count) {
  std::string text;
  for (std::int64_t word = 0; word < count; ++word)
    text += "w" + std::to_string(word) + (word % 7 == 6 ? "\n\n  " : " ");
  return text;
}

// Exact tails of a fair coin: 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10 and so on.
TEST(McNemar, IsTheBinomialTestOfWhatTellsTheModelsApart) {
  EXPECT_NEAR(mcnemar_p_value(2, 8), 112 / 1024.0, 1e-12);
  EXPECT_NEAR(mcnemar_p_value(8, 2), 112 / 1024.0, 1e-12);
  EXPECT_NEAR(mcnemar_p_value(0, 6), 2 / 64.0, 1e-12);
  EXPECT_EQ(mcnemar_p_value(5, 5), 1);
  EXPECT_EQ(mcnemar_p_value(0, 0), 1);
  EXPECT_LT(mcnemar_p_value(300, 500), 1e-9);
}

TEST(ContinuationQuestions, AskForTheNextWordsOfTheText) {
  const std::string text = numbered_words(400);
  const auto questions = continuation_questions(text, 50, 7);
  ASSERT_EQ(questions.size(), 50U);
  std::set<std::int64_t> labels;
  for (const ContinuationQuestion& question : questions) {
    ASSERT_EQ(question.choices.size(), 4U);
    labels.insert(question.label);
    EXPECT_EQ(std::set(question.choices.begin(), question.choices.end()).size(), 4U);
    for (std::int64_t choice = 0; choice < 4; ++choice) {
      const std::string& words = question.choices[static_cast<std::size_t>(choice)];
      EXPECT_EQ(text.find(question.context + words) != std::string::npos, choice == question.label);
      EXPECT_NE(text.find(words), std::string::npos);
    }
  }
  EXPECT_EQ(labels.size(), 4U);
}

TEST(ContinuationQuestions, FollowFromTheSeedAndTheirNumber) {
  const std::string text = numbered_words(400);
  const auto one = continuation_questions(text, 3, 7), more = continuation_questions(text, 9, 7),
             other = continuation_questions(text, 3, 8);
  for (std::size_t number = 0; number < one.size(); ++number) {
    EXPECT_EQ(one[number].context, more[number].context);
    EXPECT_EQ(one[number].choices, more[number].choices);
    EXPECT_EQ(one[number].label, more[number].label);
  }
  EXPECT_NE(one[0].context, other[0].context);
}

TEST(ContinuationQuestions, RefuseATextOfTooFewWords) {
  try {
    continuation_questions(numbered_words(90), 1, 1);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "continuation: held-out text: expected 100 words or more, got 88");
  }
  std::string same;
  for (int word = 0; word < 400; ++word) same += "a ";
  EXPECT_THROW(continuation_questions(same, 1, 1), UsageError);
}

TEST(ContinuationQuestions, AreMadeOfWhatAllHoldOut) {
  const std::string text = numbered_words(4000), late = text.substr(700), cut = text.substr(3, 20'000);
  // Whole words, from where the later one begins to where the first one ends, whichever is named first.
  const std::string shared = shared_text(late, cut);
  EXPECT_EQ(shared, shared_text(cut, late));
  EXPECT_NE(late.find(shared), std::string::npos);
  EXPECT_NE(cut.find(shared), std::string::npos);
  EXPECT_GT(shared.size(), 20'003U - 700 - 30);
  EXPECT_EQ(shared_text(text, "other words " + std::string(5000, 'x') + " and more"), "");
  EXPECT_EQ(shared_text("", text), "");
}

TEST(PublishedScores, StandBesideModelsOfTheirKindAndExamples) {
  EXPECT_EQ(published_scores_like("softmax", "sst2", 1), "51.72 (141M), 54.09 (600M), 58.49 (1B)");
  EXPECT_EQ(published_scores_like("softmax+cog*10+softmax", "mnli", 1), "33.71 (141M), 33.56 (600M), 32.24 (1B)");
  EXPECT_EQ(published_scores_like("differential", "piqa", 0), "57.89 (141M)");
  EXPECT_FALSE(published_scores_like("softmax", "sst2", 0));
  EXPECT_FALSE(published_scores_like("softmax", "piqa", 1));
  EXPECT_FALSE(published_scores_like("gla+softmax", "piqa", 0));
  EXPECT_FALSE(published_scores_like("softmax", "continuation", 0));
  // Each model of the tables has its average, to the digits printed.
  const double averages[] = {42.98, 43.06, 42.96, 44.35, 46.06, 47.97, 45.52, 46.21};
  for (std::size_t model = 0; model < published_scores().size(); ++model) {
    double sum = 0;
    for (const double score : published_scores()[model].percentages) sum += score;
    EXPECT_NEAR(sum / 7, averages[model], 0.0151);
  }
}

ScoredRun run_of(std::string name, std::vector<double> answers, std::vector<double> losses) {
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  ScoredRun run{.folder = name, .name = name, .mechanism = "softmax", .title = "Softmax", .parameters = 10};
  run.scores = {{.metrics = {{.name = "acc", .value = mean(answers), .error = 0.05}},
                 .answers = answers,
                 .questions = std::ssize(answers),
                 .samples = "{}"},
                {.metrics = {{.name = "loss", .value = mean(losses), .error = {}, .higher_is_better = false}},
                 .answers = losses,
                 .questions = std::ssize(losses),
                 .samples = "{}"}};
  return run;
}

HarnessScores example_scores() {
  const std::vector<double> first(20, 0.0), second(20, 1.0);
  std::vector<double> losses, lower;
  for (int question = 0; question < 20; ++question) {
    losses.push_back(2 + 0.1 * (question % 3));
    lower.push_back(losses.back() - 0.5 - 0.01 * (question % 5));
  }
  HarnessScores scores{
      .lm_eval = "0.4.13",
      .seed = 1,
      .limit = {},
      .tasks = {{.name = "sst2", .shots = 1, .kind = "multiple_choice", .chance = 0.5, .commonest = 0.6},
                {.name = "mine", .shots = 0, .kind = "loglikelihood", .chance = {}, .commonest = {}}},
      .runs = {run_of("one", first, losses), run_of("other", second, lower)}};
  scores.differences = score_differences(scores.runs);
  return scores;
}

TEST(TaskScores, DifferencesArePairedAndCorrected) {
  const HarnessScores scores = example_scores();
  ASSERT_EQ(scores.differences.size(), 2U);
  const ScoreDifference &accuracy = scores.differences[0], &loss = scores.differences[1];
  EXPECT_EQ(accuracy.difference, 1);
  EXPECT_EQ(accuracy.only_this, 20);
  EXPECT_EQ(accuracy.only_first, 0);
  EXPECT_NEAR(*accuracy.p_value, 2.0 / (1 << 20), 1e-15);
  EXPECT_FALSE(accuracy.interval);                              // every question says the same
  EXPECT_NEAR(*accuracy.p_adjusted, *accuracy.p_value, 1e-15);  // the larger of two
  EXPECT_NEAR(loss.difference, -0.52, 1e-9);
  EXPECT_LT(*loss.p_value, 1e-20);
  EXPECT_NEAR(*loss.p_adjusted, 2 * *loss.p_value, 1e-25);
  EXPECT_TRUE(loss.interval);
  EXPECT_EQ(
      scores_verdict(scores),
      "other is clearly better than one on sst2 (1-shot), mine (0-shot). other is two standard errors above always "
      "giving the commonest answer on sst2 (1-shot).");
}

TEST(TaskScores, ThePageAndTheJsonSayWhatWasFound) {
  HarnessScores scores = example_scores();
  const std::string page = scores_page(scores, "cogwheel evaluate one other", "2026-11-26T00:00:00Z", "1");
  for (const char* words : {"Differences to one", "+100.00", "100.00 ± 5.00", "50.00", "60.00", "51.72 (141M)"})
    EXPECT_NE(page.find(words), std::string::npos) << words;
  const auto json = nlohmann::json::parse(scores_to_json(scores));
  EXPECT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["differences"][0]["only_this_right"], 20);
  const auto alone = nlohmann::json::parse(scores_to_json(scores, 1));
  EXPECT_EQ(alone["runs"].size(), 1U);
  EXPECT_FALSE(alone.contains("differences"));
  scores.runs.erase(scores.runs.begin());
  EXPECT_EQ(scores_verdict(scores),
            "On 1 of 1 multiple-choice task the score is two standard errors above always giving the commonest answer: "
            "sst2 (1-shot).");
}

TEST(TaskScores, AFewRightAnswersAreNotAboveTheCommonest) {
  HarnessScores scores = example_scores();
  scores.runs.erase(scores.runs.begin());
  scores.differences.clear();
  TaskScore& score = scores.runs[0].scores[0];
  score.questions = 3;
  score.metrics[0].error = 0;
  scores.tasks[0].commonest = 2 / 3.0;
  EXPECT_EQ(
      scores_verdict(scores),
      "On none of 1 multiple-choice task is the score two standard errors above always giving the commonest answer.");
  score.questions = 300;
  EXPECT_NE(scores_verdict(scores).find("On 1 of 1"), std::string::npos);
}

TEST(TaskScores, HugeNumbersHaveFewDigits) {
  HarnessScores scores = example_scores();
  scores.runs[0].scores[1].metrics[0] = {.name = "perplexity", .value = 1.25e210, .error = 3264395.34};
  const auto rows = scores_table(scores, 0).rows;
  EXPECT_EQ(rows[1][4], "1.25e+210 ± 3.2644e+06");
}

TEST(TaskScores, WhatCouldNotBeScoredIsSaid) {
  HarnessScores scores = example_scores();
  scores.runs[1].scores[1].metrics[0].value.reset();
  scores.runs[1].scores[1].problem = "mine: KeyError: 'x'";
  scores.differences = score_differences(scores.runs);
  EXPECT_EQ(scores.differences.size(), 1U);
  EXPECT_NE(scores_page(scores, "cogwheel", "2026-11-26T00:00:00Z", "1").find("mine: KeyError"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(scores_to_json(scores, 1))["runs"][0]["scores"][1]["problem"], "mine: KeyError: 'x'");
}

}  // namespace
}  // namespace cogwheel::compare
