#include "cogwheel/evaluate/verdict.h"

#include <gtest/gtest.h>

#include <map>

#include "cogwheel/train/default_task.h"

namespace cogwheel {
namespace {

// Losses by mechanism, one per seed; the first mechanism is the baseline.
Comparison comparison_of(const std::vector<std::pair<std::string, std::vector<double>>>& losses) {
  const std::map<std::string, std::string> titles{
      {"softmax", "Softmax"}, {"cog", "Cog"}, {"differential", "Differential"}, {"symmetric", "Symmetric"}};
  Comparison comparison;
  comparison.task = describe_language_modelling("character");
  comparison.data.tokenizer = "character";
  comparison.data.bytes = 1000;
  comparison.baseline = losses.front().first;
  for (std::size_t seed = 1; seed <= losses.front().second.size(); ++seed)
    comparison.settings.seeds.push_back(static_cast<std::int64_t>(seed));
  for (const auto& [name, values] : losses) {
    comparison.mechanisms.push_back({.name = name, .title = titles.at(name)});
    for (std::size_t index = 0; index < values.size(); ++index)
      comparison.runs.push_back({.mechanism = name,
                                 .seed = static_cast<std::int64_t>(index + 1),
                                 .measured = {{"held_out_loss", values[index]}}});
  }
  comparison.summary = summarize(comparison);
  return comparison;
}

RunResult& run(Comparison& comparison, const std::string& mechanism, std::int64_t seed) {
  return *const_cast<RunResult*>(comparison.run(mechanism, seed));
}

void fail(Comparison& comparison, const std::string& mechanism, std::int64_t seed, RunStatus status) {
  RunResult& result = run(comparison, mechanism, seed);
  result.status = status;
  result.measured.clear();
  comparison.summary = summarize(comparison);
}

const std::pair<std::string, std::vector<double>> softmax{"softmax", {1.430, 1.437, 1.429}};
const std::pair<std::string, std::vector<double>> cog{"cog", {1.410, 1.416, 1.409}};
const std::pair<std::string, std::vector<double>> symmetric{"symmetric", {1.445, 1.452, 1.446}};
const std::pair<std::string, std::vector<double>> differential{"differential", {1.440, 1.420, 1.431}};

TEST(Verdict, NamesTheBetterTheWorseAndTheOpen) {
  EXPECT_EQ(verdict(comparison_of({softmax, cog, differential, symmetric})),
            "On this text and budget Cog predicts unseen text better than softmax in every seed, by 0.020 nats per "
            "character; symmetric does worse, by 0.016, and differential cannot be told apart from softmax.");
}

TEST(Verdict, SaysThatARunIsShort) {
  Comparison comparison = comparison_of({softmax, cog});
  comparison.settings.batch = 12;
  comparison.settings.context = 64;
  comparison.mechanisms.front().steps = 300;
  comparison.mechanisms.front().parameters = 800'000;
  EXPECT_EQ(
      verdict(comparison),
      "On this text and budget, early in training, Cog predicts unseen text better than softmax in every seed, by "
      "0.020 nats per character.");
  comparison.mechanisms.front().steps = 1100;  // 844,800 tokens
  EXPECT_EQ(verdict(comparison).find("early"), std::string::npos);
  Comparison alone = comparison_of({{"softmax", {1.43}}});
  alone.mechanisms.front().parameters = 1;
  EXPECT_TRUE(verdict(alone).starts_with("Softmax, early in training, came to a held-out loss of 1.430"))
      << verdict(alone);
}

TEST(Verdict, KeepsTheCapitalsOfNames) {
  Comparison comparison;
  for (const auto& [title, expected] : std::map<std::string, std::string>{{"Cog", "Cog"},
                                                                          {"Softmax off by one", "softmax off by one"},
                                                                          {"ReLU by count", "ReLU by count"},
                                                                          {"Squared ReLU", "squared ReLU"},
                                                                          {"ConSmax", "ConSmax"},
                                                                          {"Differential Cog", "differential Cog"}}) {
    comparison.mechanisms = {{.name = "a", .title = title}};
    EXPECT_EQ(name_in_sentence(comparison, "a"), expected);
  }
}

TEST(Verdict, SeveralBetter) {
  EXPECT_EQ(verdict(comparison_of({symmetric, softmax, cog})),
            "On this text and budget Cog (by 0.036 nats per character) and softmax (by 0.016) predict unseen text "
            "better than symmetric.");
}

TEST(Verdict, BaselineBest) {
  EXPECT_EQ(verdict(comparison_of({cog, softmax, symmetric})),
            "On this text and budget Cog predicts unseen text better than softmax (by 0.020 nats per character) and "
            "symmetric (by 0.036).");
}

TEST(Verdict, NothingToldApart) {
  EXPECT_EQ(verdict(comparison_of({softmax, differential, {"symmetric", {1.42, 1.45, 1.43}}})),
            "On this text and budget softmax, differential and symmetric cannot be told apart: no difference in "
            "held-out loss is larger than seeds alone could cause.");
}

TEST(Verdict, OneSeedClaimsNothing) {
  EXPECT_EQ(verdict(comparison_of({{"softmax", {1.43}}, {"cog", {1.41}}})),
            "In this one seed Cog has the lowest held-out loss, ahead of softmax by 0.020 nats per character; one seed "
            "cannot tell a difference from chance.");
  EXPECT_EQ(verdict(comparison_of({{"softmax", {1.43}}, {"cog", {1.45}}})),
            "In this one seed softmax has the lowest held-out loss, ahead of Cog (by 0.020 nats per character); one "
            "seed cannot tell a difference from chance.");
}

TEST(Verdict, RunsThatDivergedAreLeftOutAndNamed) {
  Comparison comparison = comparison_of({softmax, cog, symmetric});
  fail(comparison, "symmetric", 2, RunStatus::diverged);
  EXPECT_EQ(comparison.row("symmetric")->pairs, 2);
  EXPECT_NEAR(*comparison.row("symmetric")->mean, (1.445 + 1.446) / 2, 1e-12);
  const std::string text = verdict(comparison);
  EXPECT_NE(text.find("; symmetric diverged in seed 2."), std::string::npos) << text;

  for (const std::int64_t seed : {1, 3}) fail(comparison, "symmetric", seed, RunStatus::diverged);
  EXPECT_FALSE(comparison.row("symmetric")->mean);
  EXPECT_NE(verdict(comparison).find("; symmetric diverged in every seed."), std::string::npos) << verdict(comparison);
}

TEST(Verdict, BaselineThatNeverFinished) {
  Comparison comparison = comparison_of({softmax, cog});
  for (const std::int64_t seed : {1, 2, 3}) fail(comparison, "softmax", seed, RunStatus::failed);
  EXPECT_EQ(verdict(comparison),
            "Softmax, the baseline, finished in no seed, so no difference can be given; softmax failed in every seed.");
}

TEST(Verdict, Interrupted) {
  Comparison comparison = comparison_of({softmax, cog});
  comparison.interrupted = true;
  comparison.runs.resize(4);
  fail(comparison, "cog", 1, RunStatus::interrupted);
  EXPECT_EQ(verdict(comparison),
            "Interrupted after 3 of 6 runs; so far: softmax came to a held-out loss of 1.432 nats per character, and "
            "nothing else finished in a seed to compare it with.");
  comparison.runs.clear();
  comparison.summary = summarize(comparison);
  EXPECT_EQ(verdict(comparison),
            "Interrupted after 0 of 6 runs; so far: no run finished, so there is nothing to compare.");
}

TEST(Verdict, OneMechanismAlone) {
  EXPECT_EQ(verdict(comparison_of({softmax})),
            "Softmax came to a held-out loss of 1.432 nats per character, with nothing to compare it with.");
}

TEST(Verdict, PartsCarryTheMechanisms) {
  std::string named;
  for (const VerdictPart& part : verdict_parts(comparison_of({softmax, cog}))) named += part.mechanism + "|";
  EXPECT_EQ(named, "|cog||softmax||");
}

// The same numbers of a measure of which more is better: whoever has more is ahead.
TEST(Verdict, FollowsTheMeasure) {
  Comparison comparison = comparison_of({softmax, {"cog", {1.530, 1.537, 1.529}}});
  EXPECT_TRUE(verdict(comparison).find("oftmax predicts unseen text better than Cog") != std::string::npos)
      << verdict(comparison);
  comparison.task.measures[0] = {
      .name = "held_out_loss", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false};
  comparison.task.does_better = "recalls better";
  comparison.data.bytes = 0;
  comparison.summary = summarize(comparison);
  EXPECT_TRUE(
      verdict(comparison)
          .starts_with(
              "On this task and budget, early in training, Cog recalls better than softmax in every seed, by 0.1") ||
      verdict(comparison).starts_with("On this task and budget Cog recalls better than softmax in every seed, by 0.1"))
      << verdict(comparison);
  comparison = comparison_of({{"softmax", {1.4}}, {"cog", {1.5}}});
  comparison.task.measures[0].lower_is_better = false;
  EXPECT_TRUE(verdict(comparison).find("Cog has the highest held-out loss, ahead of softmax") != std::string::npos)
      << verdict(comparison);
}

}  // namespace
}  // namespace cogwheel
