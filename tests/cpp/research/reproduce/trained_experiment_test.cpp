#include "cogwheel/research/reproduce/trained_experiment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/research/reproduce/claims.h"
#include "support/usage_error_of.h"

namespace cogwheel::reproduce {
namespace {

const std::string plain = R"(
title = "Title"
question = "Question?"
[source]
document = "S1"
place = "Table 4"
items = ["S1-45"]
[[source.table]]
caption = "Loss"
columns = ["500", "4,500"]
at = [0.1, 1]
rows = [{ name = "Transformer", variant = "softmax", values = [6.14, nan] }, { name = "Other", values = [1, 2] }]
[comparison]
preset = "tiny"
[variants.softmax]
model.mechanism = "softmax"
[variants.cog]
model.mechanism = "cog"
[[claim]]
id = "ahead"
says = "Cog is ahead"
row = "cog"
against = "softmax"
at = 0.25
below = 0
primary = true
printed = -0.07
[desk]
seeds = 5
steps = 100
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

std::string refusal(const std::string& from, const std::string& to) {
  return usage_error_of([&] { parse_trained_experiment(replaced(plain, from, to), "s1/x", "x.toml"); });
}

TEST(TrainedExperiment, NamesRowsByTheirWidths) {
  std::string text = replaced(plain, "preset = \"tiny\"", "preset = \"tiny\"\nwidths = [32, 64]");
  EXPECT_NE(usage_error_of([&] { parse_trained_experiment(text, "s1/x", "x.toml"); }).find("expected softmax at 32"),
            std::string::npos);
  text = replaced(text, "variant = \"softmax\"", "variant = \"softmax at 64\"");
  text = replaced(text, "row = \"cog\"", "row = \"cog at 64\"");
  text = replaced(text, "against = \"softmax\"", "against = \"softmax at 64\"");
  EXPECT_EQ(parse_trained_experiment(text, "s1/x", "x.toml").comparison.widths, (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(refusal("preset = \"tiny\"", "widths = [32.5]"),
            "x.toml: comparison: widths: expected whole numbers 1 to 1048576, got 32.5");
}

TEST(TrainedExperiment, IsReadFromToml) {
  const TrainedExperiment experiment = parse_trained_experiment(plain, "s1/x", "x.toml");
  EXPECT_EQ(experiment.source.place, "Table 4");
  ASSERT_EQ(experiment.source.tables.size(), 1U);
  const SourceTable& table = experiment.source.tables[0];
  EXPECT_EQ(table.numbers[0].at, 0.1);
  EXPECT_EQ(table.rows[0].values[0], 6.14);
  EXPECT_EQ(table.rows[0].values[1], std::nullopt);
  ASSERT_EQ(experiment.claims.size(), 1U);
  EXPECT_EQ(experiment.claims[0].number.at, 0.25);
  EXPECT_EQ(experiment.claims[0].printed, -0.07);
  EXPECT_EQ(experiment.desk.seeds, 5);
  EXPECT_FALSE(experiment.paper);
  EXPECT_EQ(usage_error_of([&] { experiment.scale("paper"); }),
            "--scale: expected desk, the one that s1/x has, got paper");
  EXPECT_TRUE(has_variants(plain, "x"));
  EXPECT_FALSE(has_variants("lab = \"copy\"", "x"));
  const TrainedExperiment crossing = parse_trained_experiment(
      replaced(plain, "below = 0", "crosses = \"downwards\"\nlater_at = 0.5"), "s1/x", "x.toml");
  EXPECT_EQ(crossing.claims[0].relation, TestedClaim::Relation::crosses);
  EXPECT_FALSE(crossing.claims[0].rises);
  EXPECT_EQ(crossing.claims[0].later.at, 0.5);
}

TEST(TrainedExperiment, RefusesInOneLine) {
  EXPECT_EQ(refusal("question =", "qestion ="), "x.toml: question: expected a text, got none");
  EXPECT_EQ(refusal("place =", "plase ="), "x.toml: source: place: expected a text, got none");
  EXPECT_EQ(refusal("seeds = 5", "seds = 5"),
            "x.toml: desk: key: expected seeds, set, steps (the nearest of 9 names), got seds");
  EXPECT_EQ(refusal("seeds = 5", "seeds = \"5\""),
            "x.toml: desk: seeds: expected a whole number, got a value of type string");
  EXPECT_EQ(refusal("row = \"cog\"", "row = \"cogg\""),
            "x.toml: claim ahead: row: expected cog (the nearest of 2 names), got cogg");
  EXPECT_EQ(refusal("row = \"cog\"", "row = \"softmax\""),
            "x.toml: claim ahead: against: expected another row, got softmax");
  EXPECT_EQ(refusal("below = 0", "below = 0\nabove = 0"),
            "x.toml: claim ahead: expected one of below, above, equal and crosses, got 2");
  EXPECT_EQ(
      refusal("primary = true", "every = true"),
      "x.toml: claim ahead: every: expected a primary claim with below, above or equal, got one that is not primary");
  EXPECT_EQ(refusal("below = 0", "equal = 0"), "x.toml: claim ahead: equal: expected a margin above 0, got 0");
  EXPECT_EQ(refusal("at = [0.1, 1]", "at = [0.1]"),
            "x.toml: source: table: at: expected 2 values, a column each, got 1");
  EXPECT_EQ(refusal("variant = \"softmax\"", "variant = \"soft\""),
            "x.toml: source: table: rows: variant: expected softmax (the nearest of 2 names), got soft");
  EXPECT_EQ(refusal("below = 0", "below = nan"), "x.toml: claim ahead: below: expected a finite number, got nan");
  EXPECT_EQ(refusal("below = 0", "equal = inf"), "x.toml: claim ahead: equal: expected a finite number, got inf");
  EXPECT_EQ(refusal("printed = -0.07", "printed = nan"),
            "x.toml: claim ahead: printed: expected a finite number, got nan");
  EXPECT_EQ(refusal("below = 0", "crosses = \"upwards\"\nlater_at = 0.2"),
            "x.toml: claim ahead: at: expected below later_at = 0.2, got 0.25");
  EXPECT_EQ(refusal("at = 0.25", "measure = \"@8\""),
            "x.toml: claim ahead: measure: expected a name, @ and a number, got @8");
  EXPECT_EQ(refusal("at = 0.25", "at = 0.25\nmeasure = \"accuracy@8\""),
            "x.toml: claim ahead: measure with @: expected at = 1, as it is of finished models, got 0.25");
  EXPECT_EQ(refusal("seeds = 5", "seeds = 0"), "x.toml: desk: seeds: expected at least 1, got 0");
  EXPECT_EQ(refusal("seeds = 5", "seeds = -1"), "x.toml: desk: seeds: expected at least 1, got -1");
  EXPECT_EQ(refusal("steps = 100", "steps = 1000000000"),
            "x.toml: desk: steps: expected at most 100000000, got 1000000000");
  EXPECT_EQ(refusal("steps = 100", "minutes = 3"), "x.toml: desk: steps: expected a number of steps, got none");
  EXPECT_EQ(refusal("steps = 100", "steps = 100\nminutes = -1"), "x.toml: desk: minutes: expected at least 0, got -1");
  EXPECT_EQ(refusal("steps = 100", "steps = 100\nlearning_rate = -1"),
            "x.toml: desk: learning_rate: expected above 0, got -1");
  EXPECT_EQ(refusal("steps = 100", "steps = 100\nbytes = -1"), "x.toml: desk: bytes: expected at least 0, got -1");
  EXPECT_EQ(refusal("steps = 100", "steps = 100\nwidths = [64]"),
            "x.toml: desk: widths: expected those of [comparison], of whose rows claims are, got others");
  EXPECT_EQ(refusal("preset = \"tiny\"", "tune = -1"), "x.toml: comparison: tune: expected at least 0, got -1");
  EXPECT_EQ(refusal("columns = [\"500\", \"4,500\"]", "columns = []"),
            "x.toml: source: table: columns: expected a column at least, got none");
  EXPECT_EQ(refusal("caption = \"Loss\"", "caption = \"Loss\"\ndigits = -1"),
            "x.toml: source: table: digits: expected at least 0, got -1");
  EXPECT_EQ(refusal("[desk]", "[[claim]]\nid = \"ahead\"\nsays = \"a\"\nrow = \"cog\"\nabove = 1\n[desk]"),
            "x.toml: claim: expected each id once, got ahead twice");
}

const std::string of_study = replaced(replaced(plain, "at = 0.25", "measure = \"heads.lambda_full_of_layer@1\""),
                                      "[desk]", "[[study]]\nname = \"heads\"\nset = [\"tokens=64\"]\n[desk]");

TEST(TrainedExperiment, AsksStudiesAndClaimsSomethingOfTheirNumbers) {
  const TrainedExperiment experiment = parse_trained_experiment(of_study, "s1/x", "x.toml");
  ASSERT_EQ(experiment.studies.size(), 1U);
  EXPECT_EQ(experiment.studies[0].parameters.whole("tokens"), 64);
  EXPECT_EQ(experiment.claims[0].number.measure, "heads.lambda_full_of_layer");
  EXPECT_EQ(experiment.claims[0].number.place, 1);
  const auto refused = [](const std::string& from, const std::string& to) {
    return usage_error_of([&] { parse_trained_experiment(replaced(of_study, from, to), "s1/x", "x.toml"); });
  };
  EXPECT_EQ(refused("name = \"heads\"", "name = \"headz\"").rfind("x.toml: study: name: expected heads (", 0), 0U);
  EXPECT_EQ(refused("tokens=64", "tokens=1"), "x.toml: study: set: tokens: expected at least 8, got 1");
  EXPECT_EQ(refused("set = [", "rows = [\"cogg\"]\nset = ["),
            "x.toml: study: rows: expected cog (the nearest of 2 names), got cogg");
  EXPECT_EQ(refused("set = [", "rows = [\"cog\"]\nset = ["),
            "x.toml: claim ahead: measure: expected one of cog, of which the study is made, got softmax");
  EXPECT_EQ(refused("\"heads.lambda_full_of_layer@1\"", "\"ranks.score_rank\""),
            "x.toml: claim ahead: measure: expected one of heads, got ranks");
  EXPECT_EQ(refused("lambda_full_of_layer@1", "lambda_full_of_layer"),
            "x.toml: claim ahead: measure: expected heads.lambda_full_of_layer@ and a number, the layer, from 0 or "
            "backwards from -1, got heads.lambda_full_of_layer");
  EXPECT_EQ(refused("lambda_full_of_layer@1", "sink@1"),
            "x.toml: claim ahead: measure: expected heads.sink without a place, got @1");
  EXPECT_EQ(refused("lambda_full_of_layer@1", "sink@one"),
            "x.toml: claim ahead: measure: expected a name, @ and a number, got heads.sink@one");
  EXPECT_EQ(refused("lambda_full_of_layer@1", "sinks").rfind("x.toml: claim ahead: measure: expected sink", 0), 0U);
  EXPECT_EQ(refused("below = 0", "crosses = \"upwards\""),
            "x.toml: claim ahead: crosses: expected a measure of the task, got heads.lambda_full_of_layer");
}

compare::Comparison planted() {
  compare::Comparison comparison;
  comparison.task.measures = {{.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats"}};
  comparison.settings.seeds = {1, 2, 3};
  comparison.baseline = "softmax";
  for (const char* name : {"softmax", "cog"}) {
    comparison.mechanisms.push_back({.name = name, .title = name});
    for (const std::int64_t seed : comparison.settings.seeds) {
      const double loss = std::string(name) == "cog" ? 2.5 + 0.01 * static_cast<double>(seed) : 3;
      compare::RunResult run{.mechanism = name, .seed = seed, .measured = {{"held_out_loss", loss}}};
      for (const std::int64_t step : {10, 20, 40})
        run.curve.push_back({.step = step,
                             .train_loss = loss + 10.0 / static_cast<double>(step),
                             .measured = {{"held_out_loss", loss + 40.0 / static_cast<double>(step)}}});
      comparison.runs.push_back(std::move(run));
    }
  }
  return comparison;
}

TEST(TrainedExperiment, NumbersAreThoseOfTheRuns) {
  const compare::Comparison comparison = planted();
  const compare::RunResult* const run = comparison.run("softmax", 1);
  EXPECT_EQ(number_of_run(comparison, run, {}), 3);                             // of the finished model
  EXPECT_EQ(number_of_run(comparison, run, {.measure = "", .at = 0.5}), 5);     // at step 20
  EXPECT_EQ(number_of_run(comparison, run, {.measure = "", .at = 0.75}), 4.5);  // half way from 20 to 40
  EXPECT_EQ(number_of_run(comparison, run, {.measure = "", .at = 0.01}), 7);    // before the first point
  EXPECT_EQ(number_of_run(comparison, run, {.measure = "train_loss"}), 3.25);
  EXPECT_EQ(number_of_run(comparison, nullptr, {}), std::nullopt);
  EXPECT_EQ(usage_error_of([&] { number_of_run(comparison, run, {.measure = "held_out"}); }),
            "measure: expected held_out_loss (the nearest of 2 names), got held_out");
}

TEST(TrainedExperiment, NumbersThatAreNoneAreLeftOut) {
  compare::Comparison comparison = planted();
  comparison.runs[0].measured = {{"held_out_loss", std::nan("")}};
  comparison.runs[1].curve.front().measured = {{"held_out_loss", INFINITY}};
  EXPECT_EQ(values_of({comparison, {}}, "softmax", "", {}).size(), 2U);
  EXPECT_EQ(values_of({comparison, {}}, "softmax", "", {.measure = "", .at = 0.25}).size(), 2U);
  EXPECT_EQ(values_of({comparison, {}}, "softmax", "", {.measure = "", .at = 0.3}).size(), 2U);
}

TEST(TrainedExperiment, NumbersOfStudiesAreThoseOfTheirRuns) {
  const compare::Comparison comparison = planted();
  const inspect::StudyEntry& entry = inspect::find_study("heads", "study");
  StudyOfRows made{.study = {.study = &entry, .parameters = entry.parameters}};
  made.runs = {{"cog", 1}, {"softmax", 1}, {"cog", 3}, {"softmax", 3}, {"cog", 2}};
  made.study.result.numbers = {{.name = "lambda_full_of_layer", .place = 0, .values = {9, 9, 9, 9, 9}},
                               {.name = "lambda_full_of_layer", .place = 1, .values = {1, 2, 3, 7, 5}},
                               {.name = "sink", .values = {1, 2, std::nan(""), 4, 5}}};
  const std::vector<StudyOfRows> studies{made};
  const NumberOfRow lambda{.measure = "heads.lambda_full_of_layer", .place = 1};
  EXPECT_EQ(values_of({comparison, studies}, "cog", "softmax", lambda), (std::vector<double>{-1, -4}));
  EXPECT_EQ(values_of({comparison, studies}, "cog", "", lambda), (std::vector<double>{1, 5, 3}));
  EXPECT_EQ(values_of({comparison, studies}, "cog", "", {.measure = "heads.sink"}), (std::vector<double>{1, 5}));
  EXPECT_TRUE(values_of({comparison, studies}, "cog", "", {.measure = "heads.none"}).empty());
  const TrainedExperiment experiment = parse_trained_experiment(of_study, "s1/x", "x.toml");
  EXPECT_EQ(decide(experiment.claims, {comparison, studies})[0].values, (std::vector<double>{-1, -4}));
}

TEST(TrainedExperiment, NumbersOfADifficultyAreThoseOfTheFinishedModel) {
  compare::Comparison comparison = planted();
  comparison.runs[0].by_difficulty = {{.difficulty = "pairs",
                                       .points = {{.difficulty = 8, .measured = {{"held_out_loss", 0.5}}},
                                                  {.difficulty = 16, .measured = {{"held_out_loss", 0.7}}}}}};
  const compare::RunResult* const run = comparison.run("softmax", 1);
  EXPECT_EQ(number_of_run(comparison, run, {.measure = "held_out_loss", .place = 16}), 0.7);
  EXPECT_EQ(number_of_run(comparison, run, {.measure = "held_out_loss", .place = 17}), std::nullopt);
}

TEST(TrainedExperiment, ClaimsAreDecidedOnPairedSeeds) {
  TrainedExperiment experiment = parse_trained_experiment(plain, "s1/x", "x.toml");
  compare::Comparison comparison = planted();
  auto decided = decide(experiment.claims, {comparison, {}});
  ASSERT_EQ(decided.size(), 1U);
  EXPECT_EQ(decided[0].result.verdict, Verdict::agrees);
  EXPECT_NEAR(decided[0].result.mean, -0.48, 1e-12);
  EXPECT_EQ(claims_sentence(decided), "Of 1 claim: 1 agrees.");
  experiment.claims[0].relation = TestedClaim::Relation::above;
  EXPECT_EQ(claims_sentence(decide(experiment.claims, {comparison, {}})), "Of 1 claim: 1 is contradicted.");
  // A seed whose partner did not finish is left out; one alone tells nothing.
  comparison.runs.erase(comparison.runs.begin());
  EXPECT_EQ(decide(experiment.claims, {comparison, {}})[0].values.size(), 2U);
  comparison.runs.erase(comparison.runs.begin());
  decided = decide(experiment.claims, {comparison, {}});
  EXPECT_EQ(verdict_text(decided[0]), "cannot tell: too few seeds");
  EXPECT_EQ(claims_sentence(decided), "Of 1 claim: 1 cannot be told.");
  // Of every run: nothing is tested, one run that speaks against it is enough.
  comparison = planted();
  experiment.claims[0].relation = TestedClaim::Relation::below;
  experiment.claims[0].every = true;
  decided = decide(experiment.claims, {comparison, {}});
  EXPECT_EQ(verdict_text(decided[0]), "agrees");
  EXPECT_EQ(expected_text(decided[0].claim), "below 0 in every run");
  EXPECT_EQ(decided[0].result.p_adjusted, std::nullopt);
  experiment.claims[0].bound = *std::ranges::max_element(decided[0].values);
  decided = decide(experiment.claims, {comparison, {}});
  EXPECT_EQ(verdict_text(decided[0]), "contradicts (not so in 1 of 3 runs)");
  EXPECT_EQ(claims_sentence(decided), "Of 1 claim: 1 is contradicted.");
  comparison.runs.clear();
  EXPECT_EQ(verdict_text(decide(experiment.claims, {comparison, {}})[0]), "cannot tell: no run");
  experiment.claims[0].every = false;
  // Nobody decides what is not primary.
  experiment.claims[0].primary = false;
  EXPECT_EQ(verdict_text(decide(experiment.claims, {planted(), {}})[0]), "shown");
}

}  // namespace
}  // namespace cogwheel::reproduce
