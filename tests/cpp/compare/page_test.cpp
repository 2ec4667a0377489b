#include "cogwheel/compare/report/page.h"

#include <gtest/gtest.h>

#include <set>

#include "cogwheel/compare/report/sections.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/inspection_json.h"
#include "example_comparison.h"

namespace cogwheel::compare {
namespace {

// The page of the example in which something is changed.
template <class Change>
std::string page_of(Change&& change, const std::vector<runs::Inspection>& inspections = {}) {
  Comparison comparison = example_comparison();
  change(comparison);
  comparison.summary = summarize(comparison);
  return report_page(comparison, inspections);
}

bool holds(const std::string& page, std::string_view text) { return page.find(text) != std::string::npos; }

TEST(Page, HoldsItsSectionsAndNoPlaceholder) {
  const std::string page = report_page(example_comparison(), example_inspections());
  for (const char* id : {"result", "tuning", "curves", "heads", "samples", "limits", "reproduce"})
    EXPECT_TRUE(holds(page, std::string("<section id=\"") + id + "\"")) << id;
  for (const char* name : {"{{verdict}}", "{{unit}}", "{{lead}}", "{{baseline}}", "{{data}}"})
    EXPECT_FALSE(holds(page, name)) << name;
  EXPECT_TRUE(holds(page, "<html lang=\"en\">"));
  EXPECT_TRUE(holds(page, "<time datetime=\"2026-03-12T10:20:30Z\">12 March 2026</time>"));
  EXPECT_FALSE(holds(page, "src=\"http"));
  EXPECT_FALSE(holds(page, "href=\"http"));
}

// Words of items are not those of what is measured of them.
TEST(Page, NamesTheItemsOfMapsAndTheUnitOfCurves) {
  const std::string page = report_page(example_comparison(), example_inspections());
  EXPECT_TRUE(holds(page, "later characters, not visible"));
  EXPECT_TRUE(holds(page, "rows: the attending character"));
  EXPECT_TRUE(holds(page, "<small>nats per character</small>"));
}

TEST(Page, SaysWhatTheMapsOfAHybridAre) {
  std::vector<runs::Inspection> inspections = example_inspections();
  inspections[1].mechanism = "gla*3+softmax";
  const auto hybrid = [](Comparison& comparison) {
    comparison.mechanisms[1].name = "gla*3+softmax";
    for (RunResult& run : comparison.runs)
      if (run.mechanism == "cog") run.mechanism = "gla*3+softmax";
  };
  EXPECT_TRUE(holds(page_of(hybrid, inspections), "What a state makes of values"));
  EXPECT_FALSE(holds(report_page(example_comparison(), example_inspections()), "What a state makes of values"));
}

TEST(Page, SaysWhatKeysThatAreQueriesSave) {
  Comparison comparison = example_comparison();
  for (RunResult& run : comparison.runs) run.tokens_per_second = run.mechanism == "symmetric" ? 1250 : 1000;
  const std::string note = "Symmetric has 10.0 % fewer parameters at the same widths";
  EXPECT_TRUE(holds(report_page(comparison, {}), note + "; training took 20.0 % less time per character."));
  comparison.mechanisms[2].feed_forward = 150;
  EXPECT_TRUE(holds(report_page(comparison, {}), note + ", which its wider feed-forward spends here; training took"));
  for (RunResult& run : comparison.runs) run.tokens_per_second = 1000;
  EXPECT_TRUE(holds(report_page(comparison, {}), "training took as much time per character."));
  // Beside a baseline that ties them too there is nothing to say.
  comparison.baseline = "symmetric";
  comparison.summary = summarize(comparison);
  EXPECT_FALSE(holds(report_page(comparison, {}), "keys that are queries"));
}

// A task shows what it has.
TEST(Page, ShowsTablesAndSamplesWithoutMaps) {
  const pages::TextTable table{
      .title = "Accuracy by length", .columns = {"length", "accuracy"}, .rows = {{"1", "0.5"}}};
  std::vector<runs::Inspection> inspections = example_inspections();
  for (runs::Inspection& inspection : inspections) {
    inspection.tokens.clear();
    inspection.maps.clear();
    inspection.tables = {table};
  }
  std::string page = report_page(example_comparison(), inspections);
  EXPECT_TRUE(holds(page, "Accuracy by length"));
  EXPECT_TRUE(holds(page, "<section id=\"samples\""));
  EXPECT_TRUE(holds(page, "href=\"#samples\""));
  EXPECT_FALSE(holds(page, "<section id=\"heads\""));
  for (runs::Inspection& inspection : inspections) inspection.sample.clear();
  page = report_page(example_comparison(), inspections);
  EXPECT_TRUE(holds(page, "Accuracy by length"));
  EXPECT_FALSE(holds(page, "#samples"));
}

// A number in each cell, and what is the same of all models once; models may have other rows.
TEST(Page, TablesOfModelsStandSideBySide) {
  std::vector<runs::Inspection> inspections = example_inspections();
  const auto table = [](const char* accuracy, const char* taken_for, const char* last) {
    return pages::TextTable{.title = "By class",
                            .columns = {"class", "images", "accuracy", "taken for"},
                            .rows = {{"red", "100", accuracy, taken_for}, {last, "7", "1.0 %", ""}}};
  };
  inspections.resize(2);
  inspections[0].mechanism = "softmax", inspections[1].mechanism = "cog";
  inspections[0].seed = inspections[1].seed = 1;
  inspections[0].tables = {table("95.0 %", "blue (5)", "green")};
  inspections[1].tables = {table("12.5 %", "grey (9)", "green")};
  const std::string same = report_page(example_comparison(), inspections);
  EXPECT_TRUE(holds(same,
                    "<th scope=\"col\" rowspan=\"2\">class</th><th scope=\"col\" rowspan=\"2\">images</th><th "
                    "scope=\"colgroup\" colspan=\"2\""));
  EXPECT_TRUE(holds(same,
                    "<th scope=\"row\">red</th><td class=\"right num\">100</td><td class=\"right num\">95.0 %</td>"
                    "<td>blue (5)</td><td class=\"right num\">12.5 %</td><td>grey (9)</td></tr>"));
  inspections[1].tables = inspections[0].tables;
  EXPECT_TRUE(holds(report_page(example_comparison(), inspections), "Models of seed 1. All of them say the same."));
  inspections[1].tables = {table("12.5 %", "grey (9)", "blue")};
  const std::string other = report_page(example_comparison(), inspections);
  EXPECT_TRUE(holds(other, "colspan=\"3\""));
  EXPECT_TRUE(holds(other,
                    "<th scope=\"row\">green</th><td class=\"right num\">7</td><td class=\"right num\">1.0 %</td>"
                    "<td></td><td></td><td></td><td></td></tr>"));
}

// A sentence is translated, but its loss is one of words.
TEST(Page, BitsAreOfWhatTheLossIsOf) {
  const std::string page = page_of([](Comparison& comparison) {
    comparison.task.item = "sentence";
    comparison.task.measures.front().unit = "nats per word";
  });
  EXPECT_TRUE(holds(page, "Bits per<br>word<"));
  EXPECT_FALSE(holds(page, "Bits per<br>sentence"));
}

// Of every seed; a table of one seed that says the same is not shown beside it.
TEST(Page, ShowsMeasuresByDifficulty) {
  Comparison comparison = example_comparison();
  const auto measured = [](double loss) {
    return std::vector<runs::MeasuresByDifficulty>{
        {.difficulty = "<pairs>",
         .trained = 16,
         .points = {{16, 9, {{"held_out_loss", loss}}}, {32, 9, {{"held_out_loss", 7}}}}}};
  };
  for (RunResult& run : comparison.runs)
    if (run.mechanism == "cog") run.by_difficulty = measured(run.seed == 1 ? 0.25 : 0.75);
  std::vector<runs::Inspection> inspections = example_inspections();
  inspections[0].tables = {
      {.title = "Held-out loss by <pairs>", .columns = {"pairs", "loss"}, .rows = {{"16", "0.250"}}}};
  const std::string page = report_page(comparison, inspections);
  EXPECT_TRUE(holds(page, "<h2 id=\"task-table-0-title\">Held-out loss by &lt;pairs&gt;</h2>"));
  EXPECT_TRUE(holds(page, "<a href=\"#task-table-0\">Held-out loss by &lt;pairs&gt;</a>"));
  EXPECT_TRUE(holds(page, "<td class=\"right num\">0.500<small>0.250 to 0.750</small></td>"));
  EXPECT_TRUE(holds(page, "<td class=\"right num\"><span class=\"muted\">none</span></td>"));  // softmax
  EXPECT_TRUE(holds(page, "<th scope=\"row\">16</th>"));
  EXPECT_TRUE(holds(page, "<th scope=\"row\">32<small>beyond training</small></th>"));
  EXPECT_FALSE(holds(page, "task-table-1"));
  // The chart has the colours of the page, and the mean of the seeds.
  EXPECT_TRUE(holds(page, "aria-label=\"Held-out loss by &lt;pairs&gt;"));
  EXPECT_TRUE(holds(page, "trained up to here"));
  EXPECT_TRUE(holds(page, "<polyline points="));
}

TEST(Inspection, HasTablesWithColumns) {
  std::vector<runs::Inspection> inspections = example_inspections();
  inspections[0].tables = {{.title = "empty", .columns = {}, .rows = {{}}}};
  try {
    runs::parse_inspection(runs::inspection_to_json(inspections[0]), "inspection.json");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "inspection.json: expected a column at least in a table, got none");
  }
}

TEST(Page, EscapesEveryTextFromData) {
  Comparison comparison = example_comparison();
  const std::string attack = "</script><img src=x onerror=alert(1)>\"'";
  comparison.command = comparison.data.name = comparison.machine.cpu = comparison.versions.torch = attack;
  comparison.machine.system = comparison.settings.preset = comparison.created = attack;
  comparison.runs.back().message = comparison.mechanisms[1].title = comparison.mechanisms[1].formula = attack;
  comparison.data.sha256 = comparison.versions.compiler = comparison.machine.instructions =
      comparison.machine.matrix_products = attack;
  const std::string page = report_page(comparison, example_inspections());
  EXPECT_FALSE(holds(page, "<img"));
  EXPECT_FALSE(holds(page, "<script>alert"));
  EXPECT_TRUE(holds(page, "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;"));
  EXPECT_TRUE(holds(page, "\\u003c/script>\\u003cimg"));
}

TEST(Page, ShowsRunsThatDiverged) {
  const std::string page = report_page(example_comparison(), {});
  EXPECT_TRUE(holds(page, "<b>Symmetric</b>, seed 2: <strong>diverged</strong>"));
  EXPECT_TRUE(holds(page, "loss &lt;nan&gt;"));
  EXPECT_TRUE(holds(page, "How the missing runs would have ended."));
  EXPECT_FALSE(holds(page, "<section id=\"heads\""));
  EXPECT_FALSE(holds(page, "<section id=\"samples\""));
}

TEST(Page, LimitsAreThoseOfThisRun) {
  Comparison comparison = example_comparison();
  EXPECT_FALSE(holds(report_page(comparison, {}), "Who wins when each is tuned."));
  EXPECT_FALSE(holds(report_page(comparison, {}), "Mechanisms at equal size."));
  comparison.settings.tune = 0;
  comparison.tuning.clear();
  comparison.match = "tokens";
  runs::common(comparison.configuration.model).context = 2048;
  const std::string page = report_page(comparison, {});
  EXPECT_TRUE(holds(page, "Who wins when each is tuned."));
  EXPECT_TRUE(holds(page, "One learning rate served all three."));
  EXPECT_TRUE(holds(page, "context of 2,048 characters"));
  EXPECT_TRUE(holds(page, "Mechanisms at equal size."));
  EXPECT_FALSE(holds(page, "Long contexts."));
  EXPECT_FALSE(holds(page, "<section id=\"tuning\""));
}

TEST(Page, NumbersOfOneAndTwoAreWords) {
  const std::string page = page_of([](Comparison& comparison) {
    comparison.settings.tune = 0;
    comparison.tuning.clear();
    comparison.mechanisms.pop_back();
    std::erase_if(comparison.runs, [](const RunResult& run) { return run.mechanism == "symmetric"; });
    for (RunResult& run : comparison.runs)
      run.curve = {{.step = 39, .measured = {{"held_out_loss", 2}}},
                   {.step = 40, .measured = {{"held_out_loss", 1.5}}}};
  });
  EXPECT_TRUE(holds(page, "One learning rate served both."));
  EXPECT_TRUE(holds(page, "In the last step the held-out loss of softmax still fell by 0.5."));
}

TEST(Page, TuningSaysWhatWasMeasuredOnAndWhatFailed) {
  Comparison comparison = example_comparison();
  EXPECT_TRUE(holds(report_page(comparison, {}), "measured on the last tenth of the training text"));
  EXPECT_FALSE(holds(report_page(comparison, {}), "failed"));
  comparison.task.name = "sentences";
  comparison.tuning.front().message = "no memory";
  const std::string page = report_page(comparison, {});
  EXPECT_FALSE(holds(page, "last tenth"));
  EXPECT_TRUE(holds(page, "measured on a part of the training data, on which these trials did not train"));
  EXPECT_TRUE(holds(page, "<td>failed<small>"));
}

TEST(Page, SaysWhereModelsLearned) {
  EXPECT_TRUE(holds(report_page(example_comparison(), {}), "The same numbers, bit for bit"));
  const std::string page = page_of([](Comparison& comparison) { comparison.machine.device = "cuda:1"; });
  EXPECT_TRUE(holds(page, "<dd>cuda:1, 2 CPU threads"));
  EXPECT_TRUE(holds(page, "hold for cuda:1 of this machine"));
  EXPECT_FALSE(holds(page, "bit for bit"));
}

TEST(Page, OneSeedShowsNoInterval) {
  const std::string page = page_of([](Comparison& comparison) {
    comparison.settings.seeds = {1};
    std::erase_if(comparison.runs, [](const RunResult& run) { return run.seed != 1; });
  });
  EXPECT_TRUE(holds(page, "<b>One seed</b>, no interval"));
  EXPECT_TRUE(holds(page, "One seed, no interval."));
  EXPECT_TRUE(holds(page, "Whether it is more than chance."));
}

TEST(Page, WithoutASpreadThereIsNoInterval) {
  const std::string page = page_of([](Comparison& comparison) {
    for (RunResult& run : comparison.runs)
      if (run.status == RunStatus::done) run.measured = {{"held_out_loss", run.mechanism == "softmax" ? 1.0 : 0.75}};
  });
  EXPECT_TRUE(holds(page, "<b>The same in 2 seeds</b>, no interval"));
  EXPECT_TRUE(holds(page, "1.0000 <span class=\"muted\">in every seed</span>"));
  EXPECT_TRUE(holds(page, "The same in every seed, no interval."));
  EXPECT_TRUE(holds(page, "cannot be estimated where it is the same in every seed."));
  EXPECT_FALSE(holds(page, "Clearly"));
  EXPECT_FALSE(holds(page, "± 0.0000"));
  EXPECT_FALSE(holds(page, "p &lt; 0.0001"));
}

// The unit says what bits are of, not the item of the data.
TEST(Page, BitsAreOfTheUnit) {
  const std::string page = page_of([](Comparison& comparison) {
    comparison.task.item = "line";
    comparison.task.measures.front().unit = "nats per point";
  });
  EXPECT_TRUE(holds(page, "Bits per<br>point</th>"));
  EXPECT_TRUE(holds(page, "data-label=\"Bits per point\""));
}

TEST(Page, NothingFinishedStillMakesAPage) {
  const std::string page = page_of([](Comparison& comparison) {
    comparison.runs.clear();
    comparison.interrupted = true;
  });
  EXPECT_TRUE(holds(page, "Interrupted after 0 of 6 runs"));
  EXPECT_FALSE(holds(page, "<section id=\"curves\""));
}

// A model of recurrent cells has no heads in its layers, and what is balanced may be no feed-forward.
TEST(Page, SaysWhatModelsAreMadeOf) {
  const auto of_task = [](const std::string& task, std::int64_t feed_forward) {
    return page_of([&](Comparison& comparison) {
      comparison.task.name = task;
      runs::ModelOptions& model = comparison.configuration.model = runs::model_of_task(task);
      runs::common(model).layers = runs::common(model).heads = 1;
      for (MechanismPlan& plan : comparison.mechanisms) plan.feed_forward = plan.name == "cog" ? 120 : feed_forward;
    });
  };
  EXPECT_TRUE(holds(of_task("sentences", 100), "<dd>1 layer × 1 head<"));
  EXPECT_TRUE(holds(of_task("sentences", 100), "1.000 ×; wider feed-forward<"));
  EXPECT_TRUE(holds(of_task("handwriting", 100), "<dd>1 layer<"));
  EXPECT_TRUE(holds(of_task("handwriting", 100), "1.000 ×; wider layers<"));
  EXPECT_TRUE(holds(of_task("translation", 0), "<dd>1 layer<"));
  EXPECT_TRUE(holds(of_task("translation", 0), "1.000 ×; 120 units of feed-forward<"));
  EXPECT_TRUE(holds(of_task("translation", 100), "1.000 ×; wider feed-forward<"));
}

TEST(Page, CallsMechanismsByTheirTitles) {
  const std::string page = page_of([](Comparison& comparison) {
    for (MechanismPlan& plan : comparison.mechanisms) plan.title = "The " + plan.title;
  });
  EXPECT_TRUE(holds(page, "The Softmax 0.001, The Cog 0.001, The Symmetric 0.001"));
  EXPECT_TRUE(holds(page, "data-label=\"Difference to The softmax, from "));
}

TEST(Page, WritesSmallNumbersAsItsChartsDo) {
  const std::string page = page_of([](Comparison& comparison) { comparison.tuning.front().learning_rate = 3.2e-5; });
  EXPECT_TRUE(holds(page, "learning rate 3.2·10⁻⁵"));
}

// A task shows what it has: tables without maps, a measure of which more is better, further measures below it.
TEST(Page, SpeaksOfTheTaskAsItDoesItself) {
  Comparison comparison = example_comparison();
  comparison.task = {
      .name = "recalling",
      .summary = "recall <values>",
      .item = "pair",
      .data = "Pairs, drawn.",
      .does_better = "recalls better",
      .do_better = "recall better",
      .sampling = {},
      .measures = {
          {.name = "held_out_loss", .title = "recall", .label = "recall", .unit = "", .lower_is_better = false},
          {.name = "pace", .title = "pace", .label = "pace", .unit = "m/s"}}};
  comparison.data.bytes = 0;
  comparison.data.sha256.clear();
  for (RunResult& run : comparison.runs) run.measured.push_back({"pace", 0.125});
  comparison.summary = summarize(comparison);
  const std::vector<runs::Inspection> tables{
      {.mechanism = "cog",
       .seed = 1,
       .tables = {{"By <length>", {"pairs", "recall"}, {{"1 to 4", "0.9"}, {"5", "0.1"}}}}},
      {.mechanism = "symmetric", .seed = 1, .tables = {{"By <length>", {"pairs", "recall"}, {{"1 to 4", "0.7"}}}}}};
  const std::string page = report_page(comparison, tables);
  for (const char* words :
       {"Recall; higher is better.", "← worse", "better →", "recall &lt;values&gt;", "Pairs, drawn.",
        "By &lt;length&gt;", "href=\"#task-table-0\"",
        "<th scope=\"row\">1 to 4</th><td class=\"right num\">0.9</td><td class=\"right num\">0.7</td>",
        "<small>pace <span class=\"num\">0.1250</span> m/s</small>", "Whether it holds for other tasks."})
    EXPECT_TRUE(holds(page, words)) << words;
  for (const char* words : {"Bits per", "<section id=\"heads\"", "<section id=\"samples\"", "SHA-256", "nats per"})
    EXPECT_FALSE(holds(page, words)) << words;
}

TEST(Series, EveryMechanismHasAColourOfItsOwn) {
  Comparison comparison = example_comparison();
  for (const char* name : {"differential", "relu", "sigmoid", "norm", "consmax"})
    comparison.mechanisms.push_back({.name = name, .title = name});
  for (const char* baseline : {"softmax", "cog", "relu"}) {
    comparison.baseline = baseline;
    std::set<std::string> colours;
    for (const MechanismPlan& plan : comparison.mechanisms) colours.insert(series_property(comparison, plan.name));
    EXPECT_EQ(colours.size(), comparison.mechanisms.size()) << baseline;
    EXPECT_EQ(series_property(comparison, baseline), "--series-0");
  }
}

TEST(Page, KnowsItsChartJs) { EXPECT_EQ(chart_js_version().find_first_not_of("0123456789."), std::string::npos); }

}  // namespace
}  // namespace cogwheel::compare
