#include "cogwheel/train/run_config.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "data/temporary_folder.h"

namespace cogwheel {
namespace {

template <class Function>
void expect_usage_error(Function function, const std::string& part) {
  try {
    function();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(RunConfig, ReadsWhatIsGivenAndKeepsTheRest) {
  const RunConfig config = parse_config(R"(
    name = "mine"
    [data]
    text = ["a.txt", "b"]
    [model]
    mechanism = "cog"
    bias = true
    [training]
    learning_rate = 3e-4
    final_learning_rate = 0
    seed = 7
  )");
  EXPECT_EQ(config.name, "mine");
  EXPECT_EQ(config.data.text, (std::vector<std::string>{"a.txt", "b"}));
  EXPECT_EQ(config.model.mechanism, "cog");
  EXPECT_TRUE(config.model.bias);
  EXPECT_EQ(config.training.learning_rate, 3e-4);
  EXPECT_EQ(config.training.final_learning_rate, 0);
  EXPECT_EQ(config.training.seed, 7u);
  EXPECT_EQ(config.training.batch, TrainingOptions{}.batch);
}

TEST(RunConfig, WritesEverythingSoThatItComesBack) {
  RunConfig config;
  config.name = "quote \" and backslash \\";
  config.data.text = {"a \"b\".txt", "ü"};
  config.training.learning_rate = 1.0 / 3;
  config.training.epsilon = 1e-8;
  config.model.tied_head = false;
  config.model.first_softmax_layers = 2;
  const std::string text = to_toml(config);
  EXPECT_EQ(to_toml(parse_config(text)), text);
  EXPECT_EQ(parse_config(text).training.learning_rate, 1.0 / 3);
  EXPECT_EQ(parse_config(text).data.text, config.data.text);
  EXPECT_EQ(parse_config(text).name, config.name);
}

TEST(RunConfig, NamesTheNearestKeys) {
  expect_usage_error([] { parse_config("[model]\nwidht = 3", "my.toml"); },
                     "my.toml: key: expected model.width (the nearest of");
  expect_usage_error([] { parse_config("[modle]\nwidth = 3"); }, "model.width");
  expect_usage_error([] { parse_config("steps = 3"); }, "training.steps");
}

TEST(RunConfig, NamesTheTypeThatItExpected) {
  expect_usage_error([] { parse_config("[training]\nsteps = \"many\""); },
                     "training.steps: expected a whole number, got many");
  expect_usage_error([] { parse_config("[training]\nsteps = 1.5"); }, "expected a whole number, got 1.5");
  expect_usage_error([] { parse_config("[model]\nbias = 1"); }, "model.bias: expected true or false, got 1");
  expect_usage_error([] { parse_config("name = 3"); }, "name: expected a string, got 3");
  expect_usage_error([] { parse_config("[data]\ntext = \"a\""); }, "data.text: expected an array of strings, got a");
  expect_usage_error([] { parse_config("[training]\nseed = -1"); }, "expected a whole number of at least 0, got -1");
  expect_usage_error([] { parse_config("[training\nseed = 1", "my.toml"); }, "my.toml: expected TOML, got");
}

TEST(RunConfig, ChecksEachValue) {
  expect_usage_error([] { parse_config("[model]\nheads = 5"); }, "a divisor of the width (128), got 5");
  expect_usage_error([] { parse_config("[model]\nmechanism = \"sotfmax\""); }, "softmax");
  expect_usage_error([] { parse_config("[training]\nsteps = 0"); }, "training.steps: expected at least 1, got 0");
  expect_usage_error([] { parse_config("[data]\ntokenizer = \"word\""); }, "data.tokenizer: expected");
  expect_usage_error([] { parse_config("name = \"a/b\""); }, "name: expected a name for a folder");
}

TEST(RunConfig, TakesOverrides) {
  RunConfig config;
  set_option(config, "training.steps=12");
  set_option(config, "model.mechanism=cog");
  set_option(config, "data.text=one.txt");
  set_option(config, "model.bias=true");
  EXPECT_EQ(config.training.steps, 12);
  EXPECT_EQ(config.model.mechanism, "cog");
  EXPECT_EQ(config.data.text, std::vector<std::string>{"one.txt"});
  set_option(config, R"(data.text=["a", "b"])");
  EXPECT_EQ(config.data.text.size(), 2u);
  expect_usage_error([&] { set_option(config, "training.step=3"); }, "training.steps");
  expect_usage_error([&] { set_option(config, "training.steps"); }, "--set: expected key=value");
  expect_usage_error([&] { set_option(config, "training.steps=-3"); }, "at least 1, got -3");
  EXPECT_EQ(config.training.steps, 12);
}

TEST(RunConfig, RefusesOtherText) {
  const TemporaryFolder folder;
  RunConfig config;
  config.data.text = {folder.write("text", std::string(2000, 'a') + std::string(2000, 'b')).string()};
  const auto data = load_dataset(config);
  config = completed(config, *data);
  EXPECT_EQ(config.model.vocabulary, 2);
  EXPECT_EQ(config.data.sha256, data->sha256);
  EXPECT_NO_THROW(load_dataset(config, data->tokenizer));
  folder.write("text", std::string(4000, 'a'));
  EXPECT_THROW(load_dataset(config, data->tokenizer), Error);
}

}  // namespace
}  // namespace cogwheel
