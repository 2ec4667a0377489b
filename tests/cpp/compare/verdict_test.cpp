#include "cogwheel/compare/record/verdict.h"

#include <gtest/gtest.h>

#include <map>

#include "cogwheel/runs/default_task.h"

namespace cogwheel::compare {
namespace {

// Losses by mechanism, one per seed; the first mechanism is the baseline.
Comparison comparison_of(const std::vector<std::pair<std::string, std::vector<double>>>& losses) {
  const std::map<std::string, std::string> titles{
      {"softmax", "Softmax"}, {"cog", "Cog"}, {"differential", "Differential"}, {"symmetric", "Symmetric"}};
  Comparison comparison;
  comparison.task = runs::describe_language_modelling("character");
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
  comparison.configuration.training.batch = 12;
  runs::common(comparison.configuration.model).context = 64;
  comparison.mechanisms.front().steps = 300;
  comparison.mechanisms.front().parameters = 800'000;
  EXPECT_EQ(
      verdict(comparison),
      "On this text and budget, early in training, Cog predicts unseen text better than softmax in every seed, by "
      "0.020 nats per character.");
  comparison.mechanisms.front().steps = 1100;  // 844,800 tokens
  EXPECT_EQ(verdict(comparison).find("early"), std::string::npos);
  // What counts images says nothing of how many tokens they are.
  comparison.mechanisms.front().steps = 300;
  comparison.task.counted = "images";
  EXPECT_EQ(verdict(comparison).find("early"), std::string::npos);
  Comparison alone = comparison_of({{"softmax", {1.43}}});
  alone.mechanisms.front().parameters = 1;
  EXPECT_TRUE(verdict(alone).starts_with("Softmax, early in training, came to a held-out loss of 1.430"))
      << verdict(alone);
}

TEST(Verdict, KeepsTheCapitalsOfNames) {
  Comparison comparison;
  for (const auto& [title, expected] :
       std::map<std::string, std::string>{{"Cog", "Cog"},
                                          {"Softmax off by one", "softmax off by one"},
                                          {"ReLU by count", "ReLU by count"},
                                          {"Squared ReLU", "squared ReLU"},
                                          {"ConSmax", "ConSmax"},
                                          {"Differential Cog", "differential Cog"},
                                          {"Differential Sigmoid", "differential sigmoid"},
                                          {"Bahdanau", "Bahdanau"},
                                          {"Luong dot", "Luong dot"},
                                          {"Mamba", "Mamba"},
                                          {"Graves' window", "Graves' window"},
                                          {"None", "none"},
                                          {"Gated linear attention + Softmax", "gated linear attention + softmax"},
                                          // What lists separate by is part of it.
                                          {"Luong general, local-p, Sigmoid", "“Luong general, local-p, sigmoid”"}}) {
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

TEST(Verdict, OneSeedTellsWhatIsLevel) {
  EXPECT_EQ(verdict(comparison_of({{"softmax", {1.43}}, {"cog", {1.45}}, {"symmetric", {1.43}}})),
            "In this one seed softmax has the lowest held-out loss, ahead of Cog (by 0.020 nats per character); "
            "symmetric has the same; one seed cannot tell a difference from chance.");
}

// A p of 0, an interval of 0 and "in every seed" would follow from two seeds that happen to agree.
TEST(Verdict, WithoutASpreadChanceIsNotKnown) {
  Comparison comparison = comparison_of({{"softmax", {0.75, 0.5}}, {"cog", {0.5, 0.25}}});
  const SummaryRow& row = *comparison.row("cog");
  EXPECT_EQ(row.difference, -0.25);
  EXPECT_FALSE(row.p_adjusted);
  EXPECT_FALSE(row.difference_interval);
  EXPECT_TRUE(row.without_spread());
  EXPECT_FALSE(row.clear());
  EXPECT_EQ(verdict(comparison),
            "On this text and budget Cog (by 0.250 nats per character) predicts unseen text better than softmax by the "
            "same amount in every seed, so that no spread tells how much is chance.");
  // 0.8 − 0.7 and 0.7 − 0.6 are equal but for rounding.
  comparison = comparison_of({{"softmax", {0.8, 0.7}}, {"cog", {0.7, 0.6}}});
  EXPECT_TRUE(comparison.row("cog")->without_spread());
  // Two that are the same run, one that is worse, one that varies.
  comparison = comparison_of(
      {{"softmax", {0.75, 0.5}}, {"cog", {0.75, 0.5}}, {"symmetric", {1, 0.75}}, {"differential", {0.25, 0.5}}});
  EXPECT_EQ(verdict(comparison),
            "On this text and budget softmax and differential cannot be told apart: no difference in held-out loss is "
            "larger than seeds alone could cause; symmetric (by 0.250 nats per character) does worse than softmax by "
            "the same amount in every seed; Cog has the same held-out loss as softmax in every seed, so that no spread "
            "tells how much is chance.");
  // The mean of what is the same in every seed has no interval either.
  comparison = comparison_of({{"softmax", {1, 1}}, {"cog", {0.5, 0.25}}});
  EXPECT_FALSE(comparison.row("softmax")->interval);
  EXPECT_TRUE(comparison.row("cog")->interval);
}

TEST(Verdict, EverySeedIsEverySeedThatWasPlanned) {
  EXPECT_NE(verdict(comparison_of({softmax, cog})).find("in every seed, by"), std::string::npos);
  Comparison comparison = comparison_of({softmax, {"cog", {1.410, 1.416, 1.40895}}});
  fail(comparison, "cog", 2, RunStatus::failed);
  ASSERT_TRUE(comparison.row("cog")->clear());
  EXPECT_EQ(verdict(comparison).find("in every seed"), std::string::npos) << verdict(comparison);
  // A seed with equal results is none in which one is better, whichever direction is better.
  for (const bool lower : {true, false}) {
    comparison = comparison_of({{"softmax", {0.5, 0.6, 0.7}}, {"cog", {0.5, 0.6 - 1e-3, 0.7 - 1e-3}}});
    comparison.task.measures[0].lower_is_better = lower;
    comparison.summary = summarize(comparison);
    comparison.summary[1].p_adjusted = 0.01;
    EXPECT_EQ(verdict(comparison).find("in every seed"), std::string::npos) << verdict(comparison);
  }
}

TEST(Comparison, CountsWhatIsToDo) {
  Comparison comparison = comparison_of({softmax, cog, symmetric});
  EXPECT_EQ(comparison.runs_to_do(), 0);
  fail(comparison, "cog", 1, RunStatus::diverged);  // would diverge again
  fail(comparison, "cog", 2, RunStatus::failed);
  fail(comparison, "symmetric", 3, RunStatus::interrupted);
  EXPECT_EQ(comparison.runs_to_do(), 2);
  EXPECT_FALSE(comparison.is_to_do("cog", 1));
  EXPECT_TRUE(comparison.is_to_do("cog", 2));
  comparison.runs.clear();
  EXPECT_EQ(comparison.runs_to_do(), 9);
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
  Comparison comparison = comparison_of({softmax});
  comparison.task.measures[0].title = "accuracy";
  EXPECT_TRUE(verdict(comparison).starts_with("Softmax came to an accuracy of 1.432")) << verdict(comparison);
}

TEST(Verdict, PartsCarryTheMechanisms) {
  std::string named;
  for (const VerdictPart& part : verdict_parts(comparison_of({softmax, cog}))) named += part.mechanism + "|";
  EXPECT_EQ(named, "|cog||softmax||");
}

// The same numbers of a measure of which more is better: whoever has more is ahead.
TEST(Verdict, FollowsTheMeasure) {
  Comparison comparison = comparison_of({softmax, {"cog", {1.530, 1.538, 1.529}}});
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
}  // namespace cogwheel::compare
