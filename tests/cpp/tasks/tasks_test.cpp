#include "cogwheel/runs/task_entry.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_modelling.h"
#include "support/temporary_folder.h"

namespace cogwheel::tasks {
namespace {

std::shared_ptr<const text::Dataset> dataset_of(const std::string& held_out) {
  auto data = std::make_shared<text::Dataset>();
  data->tokenizer = text::make_tokenizer("character", held_out);
  data->held_out = data->training = data->tokenizer->encode(held_out);
  return data;
}

TEST(Tasks, AreFoundByName) {
  EXPECT_EQ(runs::task_names().front(), runs::TaskOptions{}.name);
  for (const runs::TaskEntry& entry : runs::tasks()) {
    EXPECT_FALSE(entry.description.summary.empty()) << entry.description.name;
    ASSERT_FALSE(entry.description.measures.empty()) << entry.description.name;
    for (const runs::Measure& measure : entry.description.measures)
      EXPECT_FALSE(measure.name.empty() || measure.title.empty() || measure.label.empty()) << entry.description.name;
  }
  runs::RunConfig config;
  config.task.name = "copyin";
  try {
    runs::make_task(config);
    ADD_FAILURE() << "made";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("task: expected copying"), 0u) << error.what();
  }
}

TEST(LanguageModelling, RefusesOtherText) {
  const TemporaryFolder folder;
  runs::RunConfig config;
  config.data.text = {folder.write("text", std::string(2000, 'a') + std::string(2000, 'b')).string()};
  const auto task = runs::make_task(config);
  config = task->completed(config);
  EXPECT_EQ(config.model.as<language::LanguageModelOptions>().vocabulary, 2);
  EXPECT_EQ(config.data.sha256.size(), 64u);
  for (const runs::RunFile& file : task->assets()) folder.write(file.name, file.content);
  EXPECT_NO_THROW(runs::make_task(config, folder.path()));
  for (const runs::RunFile& file : task->records()) folder.write(file.name, file.content);
  folder.write("text", std::string(4000, 'a'));
  try {
    runs::make_task(config, folder.path());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("/text has changed")) << error.what();
  }
}

TEST(LanguageModelling, HasNoOptionsOfItsOwn) {
  runs::RunConfig config;
  config.task.values["symbols"] = std::int64_t{3};
  try {
    language::make_language_modelling(dataset_of(std::string(100, 'a')))->completed(config);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "task: key: expected none but name, for language_modelling, got symbols");
  }
}

TEST(LanguageModelling, MapsOfEveryLayerAndHeadAndASampleThatRepeats) {
  const auto data = dataset_of("so\nthe cat sat on the mat and the dog ran\nto the sea\n");
  const auto task = language::make_language_modelling(data);
  language::LanguageModelOptions options;
  options.vocabulary = data->tokenizer->vocabulary();
  options.context = 16;
  options.layers = 2;
  options.heads = 2;
  options.width = 32;
  for (const char* mechanism : {"softmax", "cog", "differential"}) {
    options.mechanism = mechanism;
    language::LanguageModel model(options);
    model->initialize(1);
    const runs::Inspection inspection = task->inspect(*model, 1, nullptr);
    const std::size_t size = inspection.tokens.size();
    ASSERT_EQ(size, 16U);
    ASSERT_EQ(inspection.maps.size(), 2U);
    for (const auto& layer : inspection.maps) {
      ASSERT_EQ(layer.size(), std::string_view(mechanism) == "differential" ? 1U : 2U);
      for (const runs::AttentionMap& map : layer)
        for (std::size_t query = 0; query < size; ++query) {
          double sum = 0;
          for (std::size_t key = 0; key < size; ++key) {
            const float weight = map.weights.at(query * size + key);
            if (key > query) {
              EXPECT_EQ(weight, 0);
            }
            sum += std::string_view(mechanism) == "cog" ? std::abs(weight) : weight;
          }
          if (std::string_view(mechanism) != "differential") {
            EXPECT_NEAR(sum, 1, 1e-5);
          }
        }
    }
    EXPECT_EQ(inspection.prompt, "the cat sat on t");
    EXPECT_FALSE(inspection.sample.empty());
    EXPECT_EQ(task->inspect(*model, 1, nullptr).sample, inspection.sample);
  }
}

}  // namespace
}  // namespace cogwheel::tasks
