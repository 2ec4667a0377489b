#include "cogwheel/compare/plan/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cogwheel/compare/plan/presets.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "cogwheel/tasks/task_files.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::compare {
namespace {

std::string words(std::size_t bytes) {
  std::string text;
  for (std::uint64_t number = 1; text.size() < bytes; number = number * 6364136223846793005u + 1442695040888963407u)
    text += std::to_string(number >> 40) + (number >> 63 ? "\n" : " of the ");
  return text;
}

CompareRequest tiny_request(const std::string& text) {
  CompareRequest request;
  request.text = {text};
  request.attention = {"softmax", "cog"};
  request.preset = "tiny";
  request.seeds = 1;
  return request;
}

TEST(ComparePlan, FollowsTheRecordWhateverThePresetSays) {
  // A comparison of a preset "tiny" that has been edited since.
  Comparison comparison = plan_comparison(tiny_request("text"));
  comparison.configuration.model.as<tasks::language::LanguageModelOptions>().width = 64;
  comparison.configuration.training.beta2 = 0.5;
  comparison.data.vocabulary = 30;
  const runs::RunConfig config = run_config(comparison, comparison.mechanisms.front(), 1);
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().width, 64);
  EXPECT_EQ(config.training.beta2, 0.5);
  add_rows(comparison, {"symmetric"});
  EXPECT_EQ(
      run_config(comparison, comparison.mechanisms.back(), 1).model.as<tasks::language::LanguageModelOptions>().width,
      64);

  // Nor does it need the preset.
  comparison.settings.preset = "gone";
  EXPECT_EQ(
      run_config(comparison, comparison.mechanisms.front(), 1).model.as<tasks::language::LanguageModelOptions>().width,
      64);
  EXPECT_NE(reproduce_command(comparison).find(" --preset gone "), std::string::npos);
}

TEST(ComparePlan, RecordsWhatWasAskedForAndNothingOfTheData) {
  const TemporaryFolder folder;
  CompareRequest request = tiny_request(folder.write("text.txt", words(20'000)).string());
  request.precision = "bf16";
  request.form = "llama";
  request.position = "none";
  request.recurrent_layer = "plain";
  request.dropout = 0.1;
  request.learning_rate = 2e-3;
  request.set = {"model.negative_eigenvalues=true"};
  Comparison comparison = plan_comparison(request);
  const auto record = shared_record(comparison.configuration);
  EXPECT_EQ(record.at("training.precision"), "bf16");
  EXPECT_EQ(record.at("model.norm"), "rms");
  EXPECT_EQ(record.at("model.dropout"), 0.1);
  EXPECT_EQ(record.at("training.learning_rate"), 2e-3);
  for (const char* elsewhere : {"data.text", "model.mechanism", "model.vocabulary", "training.seed", "training.steps"})
    EXPECT_FALSE(record.contains(elsewhere)) << elsewhere;
  load_tasks(comparison);
  EXPECT_EQ(shared_record(comparison.configuration), record);
  const std::string command = reproduce_command(comparison);
  EXPECT_NE(command.find(" --form llama --position none --recurrent-layer plain --dropout 0.1 --precision bf16 "
                         "--learning-rate 0.002 --set model.negative_eigenvalues=true "),
            std::string::npos)
      << command;
}

// Strokes without texts have no model with the default mechanism, a window over texts.
TEST(ComparePlan, TheTaskIsMadeForWhatIsCompared) {
  const TemporaryFolder folder;
  std::string drawings;
  for (int x = 1; x <= 24; ++x)
    drawings += R"({"drawing":[[[0,)" + std::to_string(x) +
                R"(],[1,5]],[[9],[2]]]})"
                "\n";
  CompareRequest request;
  request.task = "handwriting";
  request.task_files["strokes"] = folder.write("strokes.ndjson", drawings).string();
  request.attention = {"none"};
  request.seeds = 1;
  Comparison comparison = plan_comparison(request);
  load_tasks(comparison);
  EXPECT_EQ(comparison.data.vocabulary, 0);
  EXPECT_GT(comparison.mechanisms.front().parameters, 0);

  request.attention = {"none", "graves_window"};
  comparison = plan_comparison(request);
  EXPECT_EQ(usage_error_of([&] { load_tasks(comparison); }),
            "model.mechanism: expected none for strokes without texts, got graves_window");
}

TEST(ComparePlan, APresetCanDecideTaskFormAndSteps) {
  CompareRequest request = tiny_request("");
  request.text.clear();
  request.preset = "recall";
  Comparison comparison = plan_comparison(request);
  load_tasks(comparison);
  const runs::RunConfig config = run_config(comparison, comparison.mechanisms.front(), 1);
  EXPECT_EQ(config.task.name, "recall");
  EXPECT_EQ(std::get<std::int64_t>(config.task.values.at("pairs")), 16);
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().position, "rotary");
  EXPECT_EQ(comparison.data.window, 57);
  EXPECT_EQ(comparison.data.evaluated_tokens % 57, 0);
  EXPECT_EQ(comparison.tokens_per_step(), comparison.configuration.training.batch * 57);
  EXPECT_GT(requested_budget(request).steps, 0);
  comparison.settings.steps = 1;
  std::string command = reproduce_command(comparison);
  for (const char* implied : {"--task", "--form", "--learning-rate"})
    EXPECT_EQ(command.find(implied), std::string::npos) << command;

  request.form = "gpt";
  request.steps = 7;
  EXPECT_EQ(requested_budget(request).steps, 7);
  request.task = "recall";
  comparison = plan_comparison(request);
  load_tasks(comparison);
  EXPECT_NE(reproduce_command(comparison).find(" --form gpt"), std::string::npos);
  request.task = "copying";
  EXPECT_EQ(usage_error_of([&] { plan_comparison(request); }),
            "--task: expected recall, the task of --preset recall, got copying");
}

TEST(ComparePlan, TheCommandOfATranslationNamesItsFilesAndWhatIsNotThePresets) {
  const TemporaryFolder folder;
  CompareRequest request;
  request.preset = "translation";
  request.attention = {"none"};
  const double dropout = runs::common(find_preset("translation").model).dropout;
  Comparison comparison = plan_comparison(request);
  EXPECT_GT(dropout, 0);
  EXPECT_EQ(runs::common(comparison.configuration.model).dropout, dropout);
  EXPECT_EQ(runs::common(run_config(comparison, comparison.mechanisms.front(), 1).model).dropout, dropout);
  EXPECT_EQ(reproduce_command(comparison).find("--dropout"), std::string::npos);

  request.dropout = 0;
  request.task_files = {{"source", (folder.path() / "a.en").string()}, {"target", (folder.path() / "a.de").string()}};
  comparison = plan_comparison(request);
  comparison.data.bytes = 1;
  comparison.data.tokenizer = "sentence";
  const std::string command = reproduce_command(comparison);
  EXPECT_NE(command.find(" --dropout 0 "), std::string::npos) << command;
  EXPECT_NE(command.find("a.en --target "), std::string::npos) << command;
  EXPECT_EQ(command.find("--tokenizer"), std::string::npos) << command;
}

TEST(ComparePlan, BlanksBesideNamesAreNoPartOfThem) {
  CompareRequest request = tiny_request("text");
  request.attention = {"softmax", " cog ", "  relu"};
  std::string names;
  for (const MechanismPlan& plan : plan_comparison(request).mechanisms) names += plan.name + ",";
  EXPECT_EQ(names, "softmax,cog,relu,");
  request.attention = {"softmax", " softmax"};
  EXPECT_EQ(usage_error_of([&] { plan_comparison(request); }),
            "--attention: expected each mechanism once, got softmax twice");
}

TEST(ComparePlan, HybridsThatAreOneModelAreRefused) {
  CompareRequest request = tiny_request("text");  // of two layers
  request.attention = {"softmax", "gla", "gla*2"};
  EXPECT_EQ(usage_error_of([&] { plan_comparison(request); }),
            "--attention: expected each model once, got gla*2, which is gla in each layer");
  request.attention = {"softmax", "gla+softmax"};
  Comparison comparison = plan_comparison(request);
  EXPECT_EQ(usage_error_of([&] { add_rows(comparison, {"softmax+softmax"}); }),
            "--add: expected each model once, got softmax+softmax, which is softmax in each layer");
  add_rows(comparison, {"softmax+gla", "gla*2"});
  EXPECT_EQ(comparison.mechanisms.size(), 4U);
}

TEST(ComparePlan, TheCommandNamesEveryFileThatATaskCanHave) {
  for (const tasks::TaskFileOption& option : tasks::task_file_options()) {
    Comparison comparison = plan_comparison(tiny_request("text"));
    comparison.configuration.task.values[option.key] = "/somewhere/here";
    EXPECT_NE(reproduce_command(comparison).find(" " + option.flag() + " "), std::string::npos) << option.key;
  }
}

// Before a folder is made, or replaced.
TEST(ComparePlan, RefusesADeviceThatIsNotThere) {
  CompareRequest request = tiny_request("");
  request.text.clear();
  request.task = "copying";
  request.device = "mps";
  Comparison comparison = plan_comparison(request);
  try {
    load_tasks(comparison);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("training.device: expected a device that this machine"), 0u)
        << error.what();
  }
}

// Two AVX2 cores make 11.9 steps a second of the default comparison.
TEST(ComparePlan, TrainsForTwoHundredStepsOnTwoAvx2Cores) {
  Comparison comparison = plan_comparison({});
  comparison.data.vocabulary = 100;
  comparison.data.evaluated_tokens = 65536;
  comparison.data.curve_tokens = 4096;
  const double seconds = decide_steps(comparison, {}, [](const auto&...) { return 11.9; });
  EXPECT_GE(comparison.settings.steps, 200);
  EXPECT_LE(seconds, 345);
  const double training = 15.0 * static_cast<double>(comparison.settings.steps) / 11.9;
  EXPECT_GE(training, 0.7 * seconds);
}

TEST(ComparePlan, FitsIntoGivenSecondsDownToTenSteps) {
  const auto steps = [](double given) {
    Comparison comparison = plan_comparison({});
    comparison.data.vocabulary = 100;
    const double seconds = decide_steps(comparison, {.seconds = given}, [](const auto&...) { return 11.9; });
    EXPECT_TRUE(seconds <= given || comparison.settings.steps == 10) << given;
    return comparison.settings.steps;
  };
  EXPECT_GT(steps(120), 10);
  EXPECT_LT(steps(120), 200);
  EXPECT_EQ(steps(1), 10);
}

// For the shortest run that a comparison chooses by itself. 0.07 is measured, 0.22 if curves use everything.
TEST(ComparePlan, EvaluatesInASmallPartOfTheTime) {
  const TemporaryFolder folder;
  Comparison comparison = plan_comparison(tiny_request(folder.write("text.txt", words(120'000)).string()));
  const auto task = load_tasks(comparison).shared();
  EXPECT_EQ(comparison.data.evaluated_tokens, 8192);
  EXPECT_EQ(comparison.data.curve_tokens, 1024);
  decide_steps(comparison, {.steps = 200}, [](const auto&...) { return 100.0; });
  const runs::RunConfig config = run_config(comparison, comparison.mechanisms.front(), 1);
  runs::TrainingRun run(config.model, config.training, task);
  EXPECT_EQ(run.train(), runs::TrainingStatus::finished);
  const double share = run.evaluation_seconds() / (run.seconds() + run.evaluation_seconds());
  EXPECT_LT(share, 0.15);
}

// Lv et al. (2024), appendix C; in a deeper model the same pattern repeats, and is no Cogformer.
TEST(ComparePlan, CogBetweenSoftmaxLayersIsACogformer) {
  const auto title = [](const char* pattern, std::int64_t layers) {
    tasks::language::LanguageModelOptions options;
    options.mechanism = pattern;
    options.layers = layers;
    return tasks::language::mechanism_text(options, "--attention").title;
  };
  EXPECT_EQ(title("softmax+cog*2+softmax", 4), "Cogformer");
  EXPECT_EQ(title("softmax+cog+softmax", 3), "Cogformer");
  EXPECT_EQ(title("softmax+cog*2+softmax", 8), "Softmax + Cog × 2 + Softmax");
  EXPECT_EQ(title("softmax+cog*3", 4), "Softmax + Cog × 3");
  EXPECT_EQ(title("softmax+sigmoid*2+softmax", 4), "Softmax + Sigmoid × 2 + Softmax");
  for (const char* preset : {"small", "medium"}) {
    CompareRequest request;
    request.preset = preset;
    const Comparison planned = plan_comparison(request);
    ASSERT_EQ(planned.mechanisms.size(), 5U);
    EXPECT_EQ(planned.mechanisms[2].title, "Cogformer");
    EXPECT_EQ(name_in_sentence(planned, planned.mechanisms[2].name), "Cogformer");
  }
}

}  // namespace
}  // namespace cogwheel::compare
