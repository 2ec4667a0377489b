#include "cogwheel/compare/record/width_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/report/page.h"
#include "cogwheel/core/random.h"
#include "tests/cpp/compare/example_comparison.h"

namespace cogwheel::compare::width_series_test {
namespace {

using Losses = std::vector<std::vector<double>>;  // [seed][width]

// Rows of softmax and cog at widths 32, 64, …, whose sizes grow fourfold.
Comparison comparison_at_widths(const Losses& of_softmax, const Losses& of_cog) {
  Comparison comparison = example_comparison();
  comparison.mechanisms.clear();
  comparison.runs.clear();
  comparison.tuning.clear();
  comparison.settings.seeds.clear();
  for (std::size_t seed = 1; seed <= of_softmax.size(); ++seed)
    comparison.settings.seeds.push_back(static_cast<std::int64_t>(seed));
  for (const auto& [name, title, losses] : {std::tuple{"softmax", "Softmax", of_softmax}, {"cog", "Cog", of_cog}})
    for (std::size_t place = 0; place < of_softmax.front().size(); ++place) {
      const auto width = static_cast<std::int64_t>(32U << place);
      if (std::string_view(name) == "softmax") comparison.settings.widths.push_back(width);
      MechanismPlan plan = example_comparison().mechanisms.front();
      plan.name = name + width_suffix(width);
      plan.title = title + width_suffix(width);
      plan.set = {std::string("model.mechanism=") + name, "model.width=" + std::to_string(width)};
      plan.series = name;
      plan.width = width;
      plan.block_parameters = static_cast<std::int64_t>(10'000U << (2 * place));
      comparison.mechanisms.push_back(plan);
      for (std::size_t seed = 0; seed < losses.size(); ++seed) {
        RunResult run = example_comparison().runs.front();
        run.mechanism = plan.name;
        run.seed = static_cast<std::int64_t>(seed + 1);
        run.measured = {{"held_out_loss", losses[seed][place]}};
        comparison.runs.push_back(run);
      }
    }
  comparison.baseline = "softmax at 32";
  comparison.summary = summarize(comparison);
  return comparison;
}

// Softmax falls as 1.5 + 20 N^(−0.4); cog is below it by what `gap` says of each width.
Comparison planted(const std::vector<double>& gap, std::uint64_t draw = 1, double noise = 0.001) {
  Losses of_softmax, of_cog;
  NumberedDraws draws(3, stream_named("test"), draw);
  for (int seed = 0; seed < 3; ++seed) {
    const double shared = 0.02 * draws.normal();
    of_softmax.emplace_back();
    of_cog.emplace_back();
    for (std::size_t place = 0; place < gap.size(); ++place) {
      const double size = 10'000.0 * std::pow(4, place);
      of_softmax.back().push_back(1.5 + 20 * std::pow(size, -0.4) + shared + noise * draws.normal());
      of_cog.back().push_back(of_softmax.back().back() - gap[place] + noise * draws.normal());
    }
  }
  return comparison_at_widths(of_softmax, of_cog);
}

TEST(WidthSeries, ComparesRowsWithTheBaselineOfTheirWidth) {
  const Comparison comparison = planted({0.05, 0.03, 0.01});
  EXPECT_EQ(comparison.base_of("cog at 128"), "softmax at 128");
  EXPECT_TRUE(comparison.is_base("softmax at 64"));
  EXPECT_EQ(comparison.baseline_family(), "softmax");
  EXPECT_NEAR(*comparison.row("cog at 128")->difference, -0.01, 0.003);
  EXPECT_NEAR(*comparison.row("cog at 32")->difference, -0.05, 0.003);
  EXPECT_FALSE(comparison.row("softmax at 128")->difference.has_value());
}

TEST(WidthSeries, FitsALawWithIntervals) {
  const std::vector<WidthSeries> all = width_series(planted({0.05, 0.03, 0.01}, 1, 1e-4));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "softmax");
  EXPECT_EQ(all[0].title, "Softmax");
  ASSERT_TRUE(all[0].law.has_value());
  EXPECT_NEAR(all[0].law->exponent.value, 0.4, 0.02);
  EXPECT_LT(*all[0].law->exponent.low, 0.4);
  EXPECT_GT(*all[0].law->exponent.high, 0.4);
  EXPECT_LT(*all[0].law->limit.low, 1.5);
  EXPECT_GT(*all[0].law->limit.high, 1.5);
  EXPECT_FALSE(all[0].gap.has_value());
}

TEST(WidthSeries, SaysWhatTheGapDoes) {
  const auto change = [](const std::vector<double>& gap) { return width_series(planted(gap)).at(1).gap->change; };
  EXPECT_EQ(change({0.01, 0.03, 0.05}), GapChange::grows);
  EXPECT_EQ(change({0.05, 0.03, 0.01}), GapChange::shrinks);
  EXPECT_EQ(change({-0.05, -0.03, -0.01}), GapChange::shrinks);
  EXPECT_EQ(change({0.03, 0.0, -0.03}), GapChange::changes_sign);
  EXPECT_EQ(change({0.03, 0.03, 0.03}), GapChange::cannot_tell);
  const Gap gap = *width_series(planted({0.05, 0.03, 0.01})).at(1).gap;
  EXPECT_NEAR(gap.per_doubling, 0.01, 0.002);  // four sizes of a doubling each, from −0.05 to −0.01
  EXPECT_LT(std::abs(gap.per_doubling - 0.01), *gap.interval);
}

// Of 2,000 planted comparisons without a change, how many say that there is one: at most one in twenty.
TEST(WidthSeries, ErrsRarely) {
  constexpr int repetitions = 2000;
  int wrong = 0, seen = 0;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    // Two widths: the test is the same, and no law is fitted.
    const auto draw = static_cast<std::uint64_t>(repetition + 10);
    wrong += width_series(planted({0.02, 0.02}, draw)).at(1).gap->change != GapChange::cannot_tell;
    seen += width_series(planted({0.02, 0.04}, draw)).at(1).gap->change == GapChange::grows;
  }
  EXPECT_LE(wrong, 0.05 * repetitions + 3 * std::sqrt(0.05 * 0.95 * repetitions));
  EXPECT_GE(wrong, 0.05 * repetitions - 3 * std::sqrt(0.05 * 0.95 * repetitions));
  EXPECT_GE(seen, 0.9 * repetitions);
}

TEST(WidthSeries, FitsNoLawToTwoWidthsNorIntervalsToOneSeed) {
  const std::vector<WidthSeries> two = width_series(planted({0.05, 0.03}));
  EXPECT_FALSE(two[0].law.has_value());
  EXPECT_EQ(two[0].why_no_law, "three numbers are fitted, so it takes three widths at least");
  EXPECT_EQ(two[1].gap->change, GapChange::shrinks);

  const std::vector<WidthSeries> one = width_series(comparison_at_widths({{3, 2.5, 2.3}}, {{2.9, 2.45, 2.29}}));
  EXPECT_EQ(one[0].seeds, 1);
  EXPECT_FALSE(one[0].law->exponent.low.has_value());
  EXPECT_EQ(one[1].gap->change, GapChange::cannot_tell);
  EXPECT_FALSE(one[1].gap->interval.has_value());
}

TEST(WidthSeries, LeavesSeedsOutThatDidNotFinishEverywhere) {
  Comparison comparison = planted({0.05, 0.03, 0.01});
  for (RunResult& run : comparison.runs)
    if (run.mechanism == "cog at 64" && run.seed == 2) run.status = RunStatus::diverged, run.measured.clear();
  comparison.summary = summarize(comparison);
  const std::vector<WidthSeries> all = width_series(comparison);
  EXPECT_EQ(all[0].seeds, 3);
  EXPECT_EQ(all[1].seeds, 2);
}

TEST(WidthSeries, IsSaidInTheVerdict) {
  EXPECT_EQ(verdict(planted({0.05, 0.03, 0.0}, 4)),
            "On this text and budget, early in training, Cog predicts unseen text better than softmax at widths 32 (by "
            "0.050 nats per character) and 64 (by 0.029), cannot be told apart at width 128, and its gap shrinks with "
            "size.");
  const std::string one = verdict(comparison_at_widths({{3, 2.5}}, {{2.9, 2.45}}));
  EXPECT_EQ(one,
            "On this text and budget, early in training, Cog differs from softmax at widths 32 (by 0.100 nats per "
            "character) and 64 (by 0.050), and whether its gap grows or shrinks with size cannot be told; one seed "
            "cannot tell a difference from chance.");
}

TEST(WidthSeries, MayBeOneAlone) {
  Comparison comparison = comparison_at_widths({{3, 2.5}}, {{2.9, 2.45}});
  std::erase_if(comparison.mechanisms, [](const MechanismPlan& plan) { return plan.series == "cog"; });
  std::erase_if(comparison.runs, [](const RunResult& each) { return each.mechanism.starts_with("cog"); });
  comparison.summary = summarize(comparison);
  EXPECT_EQ(verdict(comparison),
            "Softmax, early in training, came to a held-out loss of 3.000 nats per character at width 32 and 2.500 at "
            "width 64, with nothing to compare it with.");
  EXPECT_NE(report_page(comparison, {}).find("One attention mechanism at two widths"), std::string::npos);
}

TEST(WidthSeries, SaysWhatTheFirstRateCosts) {
  Comparison comparison = planted({0.05, 0.03, 0.01});
  comparison.tuning = {{.mechanism = "cog at 32", .learning_rate = 1e-3, .steps = 20, .value = 2.5, .chosen = true},
                       {.mechanism = "cog at 64", .learning_rate = 1e-3, .steps = 20, .value = 2.5},
                       {.mechanism = "cog at 64", .learning_rate = 5e-4, .steps = 20, .value = 2.25, .chosen = true}};
  for (MechanismPlan& plan : comparison.mechanisms)
    if (plan.name == "cog at 64") plan.learning_rate = 5e-4;
  const std::vector<WidthPoint> points = points_of_series(comparison, "cog");
  EXPECT_EQ(points[0].first_rate_costs, 0);
  EXPECT_EQ(points[1].first_rate_costs, 0.25);
  EXPECT_FALSE(points[2].first_rate_costs.has_value());
}

TEST(WidthSeries, IsWrittenReadAndShown) {
  const Comparison comparison = planted({0.05, 0.03, 0.01});
  const std::string text = results_to_json(comparison);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["scaling"]["bootstrap_seed"], 33);
  EXPECT_EQ(json["scaling"]["series"][1]["gap"]["with_size"], "shrinks");
  EXPECT_EQ(json["scaling"]["series"][0]["points"][2]["parameters_without_embeddings"], 160'000);
  EXPECT_EQ(results_to_json(parse_results(text, "results.json")), text);
  const std::string page = report_page(comparison, {});
  EXPECT_NE(page.find("Two attention mechanisms at three widths under one budget"), std::string::npos);
  EXPECT_NE(page.find("What size does"), std::string::npos);
  EXPECT_NE(page.find("softmax of the same width"), std::string::npos);

  auto broken = json;
  broken["mechanisms"][1]["width"] = 32;
  EXPECT_THROW(parse_results(broken.dump(), "results.json"), std::exception);
  EXPECT_FALSE(nlohmann::json::parse(results_to_json(example_comparison())).contains("scaling"));
}

}  // namespace
}  // namespace cogwheel::compare::width_series_test
