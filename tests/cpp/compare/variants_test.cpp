#include "cogwheel/compare/plan/variants.h"

#include <gtest/gtest.h>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/plan/rows.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::compare {
namespace {

using Names = std::vector<std::string>;

CompareRequest request_of(const Names& variants) {
  CompareRequest request;
  request.text = {"text"};
  request.preset = "tiny";
  for (const std::string& text : variants) request.variants.push_back(parse_variant(text, "--variant"));
  return request;
}

std::string refusal(Names variants) {
  return usage_error_of([&] { plan_comparison(request_of(std::move(variants))); });
}

const tasks::language::LanguageModelOptions model_of(const Comparison& comparison, std::size_t row) {
  return row_configuration(shared_configuration(comparison), comparison.mechanisms.at(row))
      .model.as<tasks::language::LanguageModelOptions>();
}

TEST(Variants, AreANameAndKeysWhoseValuesMayHoldSpaces) {
  const Variant variant = parse_variant(
      " long names : training.frozen=[\"a\", \"b\"]  model.mechanism=cog\ttask.start=my runs/one ", "--variant");
  EXPECT_EQ(variant.name, "long names");
  EXPECT_EQ(variant.set, (Names{"training.frozen=[\"a\", \"b\"]", "model.mechanism=cog", "task.start=my runs/one"}));
  EXPECT_EQ(parse_variant(variant_text(variant.name, variant.set), "--variant").set, variant.set);
}

TEST(Variants, OfAFileStandInItsOrder) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("variants.toml",
                   "[variants.zebra]\nmodel.mechanism = \"cog\"\nmodel.first_softmax_layers = 1\n"
                   "[variants.\"a b\"]\ntraining.frozen = [\"head\", \"x\"]\ntraining.weight_decay = 0.5\n"
                   "[variants.apple.model]\ntied_head = false\n");
  const std::vector<Variant> variants = read_variants(file);
  ASSERT_EQ(variants.size(), 3U);
  EXPECT_EQ(variants[0].name, "zebra");
  EXPECT_EQ(variants[0].set, (Names{"model.first_softmax_layers=1", "model.mechanism=cog"}));
  EXPECT_EQ(variants[1].name, "a b");
  EXPECT_EQ(variants[2].set, Names{"model.tied_head=false"});

  CompareRequest request = request_of({"last: model.window=8"});
  request.variants.insert(request.variants.begin(), variants.begin(), variants.end());
  const Comparison comparison = plan_comparison(request);
  Names names;
  for (const MechanismPlan& plan : comparison.mechanisms) names.push_back(plan.name);
  EXPECT_EQ(names, (Names{"zebra", "a b", "apple", "last"}));
  const runs::RunConfig second = row_configuration(shared_configuration(comparison), comparison.mechanisms[1]);
  EXPECT_EQ(second.training.frozen, (Names{"head", "x"}));
  EXPECT_EQ(second.training.weight_decay, 0.5);
  EXPECT_EQ(comparison.baseline, "zebra");

  const auto refused = [&](const std::string& text) {
    const auto bad = folder.write("bad.toml", text);
    return usage_error_of([&] { read_variants(bad); }).substr(bad.string().size());
  };
  EXPECT_EQ(refused("[other]\n"), ": expected tables [variants.NAME] and no others, got other");
  EXPECT_EQ(refused("[variants]\nouter = 1\n"), ": variants.outer: expected a table of keys, got a value");
  EXPECT_EQ(refused("[variants.outer]\n"), ": variants.outer: expected a key at least, got none");
}

TEST(Variants, ThatSayAMechanismAloneAreThatMechanism) {
  CompareRequest mechanisms = request_of({});
  mechanisms.attention = {"softmax", "cog"};
  const Comparison one = plan_comparison(mechanisms);
  const Comparison other =
      plan_comparison(request_of({"softmax: model.mechanism=softmax", "cog: model.mechanism=cog"}));
  ASSERT_EQ(other.mechanisms.size(), 2U);
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(other.mechanisms[row].set, Names{});
    EXPECT_EQ(other.mechanisms[row].title, one.mechanisms[row].title);
  }
  EXPECT_EQ(reproduce_command(one), reproduce_command(other));
}

TEST(Variants, HaveTheKeysOfAllAndTheirOwn) {
  CompareRequest request = request_of({"outer: model.first_softmax_layers=1 model.mechanism=cog",
                                       "narrow: model.window=16", "slow: training.learning_rate=0.0001"});
  request.attention = {"softmax"};
  request.set = {"model.width=64"};
  const Comparison comparison = plan_comparison(request);
  ASSERT_EQ(comparison.mechanisms.size(), 4U);
  EXPECT_EQ(comparison.baseline, "softmax");
  EXPECT_EQ(model_of(comparison, 1).mechanism, "cog");
  EXPECT_EQ(model_of(comparison, 1).first_softmax_layers, 1);
  EXPECT_EQ(model_of(comparison, 1).width, 64);
  EXPECT_EQ(comparison.mechanisms[1].mechanism(), "cog");
  EXPECT_EQ(comparison.mechanisms[1].title, "outer");
  // What is not named is that of all, and said in the record.
  EXPECT_EQ(comparison.mechanisms[2].set, (Names{"model.mechanism=softmax", "model.window=16"}));
  EXPECT_EQ(model_of(comparison, 0).window, 0);
  // The last rate keeps its share of the first.
  const auto& shared = comparison.configuration.training;
  const runs::TrainingOptions slow = run_config(comparison, comparison.mechanisms[3], 1).training;
  EXPECT_EQ(slow.learning_rate, 0.0001);
  EXPECT_DOUBLE_EQ(slow.final_learning_rate / 0.0001, shared.final_learning_rate / shared.learning_rate);
  EXPECT_EQ(untuned_rate(comparison, comparison.mechanisms[3]), 0.0001);
  EXPECT_EQ(untuned_rate(comparison, comparison.mechanisms[2]), shared.learning_rate);

  const std::string command = reproduce_command(comparison);
  EXPECT_NE(command.find("--attention softmax --variant 'outer: model.first_softmax_layers=1 model.mechanism=cog' "
                         "--variant 'narrow: model.mechanism=softmax model.window=16'"),
            std::string::npos)
      << command;
}

TEST(Variants, AreRefusedWhereTheyWouldCompareNothing) {
  EXPECT_EQ(refusal({"outer"}),
            "--variant: expected NAME: KEY=VALUE …, as in \"outer: model.mechanism=cog\", got outer");
  EXPECT_EQ(refusal({"outer: cog"}),
            "--variant: expected NAME: KEY=VALUE …, as in \"outer: model.mechanism=cog\", got outer: cog");
  EXPECT_NE(refusal({"a/b: model.mechanism=cog"}).find("without / and :"), std::string::npos);
  EXPECT_EQ(refusal({"a: model.windw=8"}),
            "--variant a: key: expected model.window, model.width (the nearest of 81 names), got model.windw");
  EXPECT_EQ(refusal({"a: model.mechanism=cog", "a: model.window=8"}),
            "--variant: expected each name once, got a twice");
  EXPECT_EQ(refusal({"a: model.mechanism=cog", "b: model.mechanism=cog"}),
            "--variant: expected each model once, got b, which is a");
  EXPECT_EQ(refusal({"a: model.mechanism=gla", "b: model.mechanism=gla*2"}),
            "--variant: expected each model once, got b, which is a");
  EXPECT_EQ(refusal({"a+b: model.window=8", "a-b: model.window=9"}),
            "--variant: expected names whose folders differ, got a-b and a+b");
  for (const char* key : {"data.text=a", "data.byte_limit=9", "task.name=parity", "training.batch=3", "training.seed=3",
                          "training.steps=3", "training.device=cpu", "training.curve_tokens=64", "model.vocabulary=9",
                          "training.warm_up=1"})
    EXPECT_EQ(
        refusal({"softmax: model.mechanism=softmax", std::string("a: ") + key}),
        std::string("--variant: expected keys that leave the data and the budget of paired runs as they are, got ") +
            key);
  EXPECT_EQ(refusal({"wide: model.feed_forward=64"}),
            "--variant: expected no key that --match parameters decides, or --match tokens beside it, got "
            "model.feed_forward=64");
  CompareRequest request = request_of({"wide: model.feed_forward=64", "wider: model.feed_forward=128"});
  request.match = "tokens";
  EXPECT_EQ(plan_comparison(request).mechanisms.size(), 2U);
}

// Items that are drawn, so that nothing but what they are tells them apart.
TEST(Variants, MeasureTheSameItems) {
  const auto planned = [](const std::string& variant) {
    CompareRequest request;
    request.task = "recall";
    request.attention = {"softmax"};
    request.seeds = 1;
    request.variants = {parse_variant(variant, "--variant")};
    Comparison comparison = plan_comparison(request);
    return usage_error_of([&] { load_tasks(comparison); });
  };
  EXPECT_EQ(planned("fewer: task.overwritten=0.5"),
            "--variant fewer: expected keys that leave what is measured as it is, got task.overwritten=0.5");
  EXPECT_NE(planned("short: model.context=256").find("expected keys that leave the window of"), std::string::npos);
  EXPECT_EQ(planned("later: task.doubled_after=5"), "nothing thrown");
}

CompareRequest at_widths(std::vector<std::int64_t> widths, const Names& variants = {}) {
  CompareRequest request = request_of(variants);
  request.attention = {"softmax", "cog"};
  request.widths = std::move(widths);
  return request;
}

TEST(Widths, MakeARowOfEach) {
  const Comparison comparison = plan_comparison(at_widths({64, 32}, {"near: model.window=4"}));
  Names names;
  for (const MechanismPlan& plan : comparison.mechanisms) names.push_back(plan.name);
  EXPECT_EQ(names, (Names{"softmax at 32", "softmax at 64", "cog at 32", "cog at 64", "near at 32", "near at 64"}));
  EXPECT_EQ(comparison.baseline, "softmax at 32");
  EXPECT_EQ(comparison.base_of("near at 64"), "softmax at 64");
  EXPECT_EQ(comparison.mechanisms[3].title, "Cog at 64");
  EXPECT_EQ(comparison.mechanisms[3].series, "cog");
  EXPECT_EQ(model_of(comparison, 3).width, 64);
  EXPECT_EQ(model_of(comparison, 3).heads, model_of(comparison, 2).heads);
  EXPECT_EQ(model_of(comparison, 5).window, 4);
  EXPECT_NE(
      reproduce_command(comparison)
          .find("--attention softmax,cog --variant 'near: model.mechanism=softmax model.window=4' --widths 32,64"),
      std::string::npos);
}

TEST(Widths, AreAddedTo) {
  Comparison comparison = plan_comparison(at_widths({32, 64}));
  add_rows(comparison, {"linear_abs"});
  EXPECT_EQ(comparison.mechanisms.back().name, "linear_abs at 64");
  EXPECT_EQ(usage_error_of([&] { add_rows(comparison, {"cog"}); }),
            "--add: expected a name that is not in the comparison yet, got cog");
}

TEST(Widths, AreRefusedWhereRowsCannotHaveThem) {
  const auto refused = [](const CompareRequest& request) { return usage_error_of([&] { plan_comparison(request); }); };
  EXPECT_EQ(refused(at_widths({64, 64})), "--widths: expected each width once, got 64 twice");
  EXPECT_EQ(refused(at_widths({32, 33})), "--widths 33: heads: expected a divisor of the width (33), got " +
                                              std::to_string(model_of(plan_comparison(at_widths({32})), 0).heads));
  CompareRequest request = at_widths({32, 64});
  request.set = {"model.width=48"};
  EXPECT_EQ(refused(request), "--set: expected --widths for model.width, got model.width=48");
  EXPECT_EQ(refused(at_widths({32, 64}, {"wide: model.width=96"})),
            "--variant: expected no model.width beside --widths, got model.width=96");
  request = at_widths({32, 64});
  request.baseline = "cog at 32";
  EXPECT_EQ(refused(request), "--baseline: expected one of softmax, cog, got cog at 32");
  request = at_widths({32, 64});
  request.attention = {"cogg"};
  EXPECT_TRUE(refused(request).starts_with("--attention: expected "));
  request = {};
  request.task = "handwriting";
  request.widths = {64, 128};
  EXPECT_EQ(refused(request), "--widths: expected a task whose model has transformer blocks, got handwriting");
}

// A model that learned to write steps is measured by what it then answers: by the same answers as one without.
TEST(Variants, MayWriteStepsToTheSameAnswers) {
  const auto planned = [](const std::string& variant) {
    CompareRequest request;
    request.task = "parity";
    request.attention = {"softmax"};
    request.seeds = 1;
    request.set = {"task.steps=none", "task.length=8"};
    request.variants = {parse_variant(variant, "--variant")};
    Comparison comparison = plan_comparison(request);
    return usage_error_of([&] { load_tasks(comparison); });
  };
  EXPECT_EQ(planned("steps: task.steps=written"), "nothing thrown");
  EXPECT_EQ(planned("dense: task.steps=dense"),
            "--variant dense: expected keys that leave what is measured as it is, got task.steps=dense");
  EXPECT_EQ(planned("longer: task.steps=written task.length=16"),
            "--variant longer: expected keys that leave what is measured as it is, got task.length=16, "
            "task.steps=written");
}

}  // namespace
}  // namespace cogwheel::compare
