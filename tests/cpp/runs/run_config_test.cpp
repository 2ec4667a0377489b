#include "cogwheel/runs/configuration/run_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/configuration/config_table.h"
#include "cogwheel/tasks/encoders/encoder_options.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "cogwheel/tasks/translation/sequence_to_sequence_options.h"
#include "cogwheel/tasks/translation/transformer_options.h"
#include "support/temporary_folder.h"

namespace cogwheel::runs {
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
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().mechanism, "cog");
  EXPECT_TRUE(config.model.as<tasks::language::LanguageModelOptions>().bias);
  EXPECT_EQ(config.training.learning_rate, 3e-4);
  EXPECT_EQ(config.training.final_learning_rate, 0);
  EXPECT_EQ(config.training.seed, 7u);
  EXPECT_EQ(config.training.batch, TrainingOptions{}.batch);
}

TEST(RunConfig, RoundTripsThroughToml) {
  RunConfig config;
  config.name = "quote \" and backslash \\";
  config.data.text = {"a \"b\".txt", "ü"};
  config.training.learning_rate = 1.0 / 3;
  config.training.epsilon = 1e-8;
  config.model.as<tasks::language::LanguageModelOptions>().tied_head = false;
  config.model.as<tasks::language::LanguageModelOptions>().first_softmax_layers = 2;
  const std::string text = to_toml(config);
  EXPECT_EQ(to_toml(parse_config(text)), text);
  EXPECT_EQ(parse_config(text).training.learning_rate, 1.0 / 3);
  EXPECT_EQ(parse_config(text).data.text, config.data.text);
  EXPECT_EQ(parse_config(text).name, config.name);
}

TEST(RunConfig, EveryKeyIsDocumented) {
  const std::string page = read_file(COGWHEEL_DOCS "/configuration.md");
  for (const ModelOptions& model : {ModelOptions(tasks::language::LanguageModelOptions{}),
                                    ModelOptions(tasks::translation::SequenceToSequenceOptions{}),
                                    ModelOptions(tasks::translation::TransformerOptions{})}) {
    RunConfig config;
    config.model = model;
    for (const auto& field : config_fields(config))
      EXPECT_NE(page.find("| `" + field.key + "`"), std::string::npos) << field.key;
  }
}

// task.model names another model of a task: in a file before any key, by an assignment over what a file says.
TEST(RunConfig, ATaskMayHaveSeveralModels) {
  using tasks::translation::SequenceToSequenceOptions, tasks::translation::TransformerOptions;
  const std::string file =
      "[model]\nwidth = 64\ncontext = 30\n[task]\nmodel = \"transformer\"\nname = \"translation\"\n";
  RunConfig config = parse_config(file);
  ASSERT_NE(config.model.get_if<TransformerOptions>(), nullptr);
  EXPECT_EQ(parse_config(to_toml(config)).model, config.model);
  ASSERT_NE(parse_config(file, "config", {"task.model=recurrent"}).model.get_if<SequenceToSequenceOptions>(), nullptr);
  expect_usage_error([&] { parse_config(file + "[training]\nsteps = 1\n", "my.toml", {"model.cell=lstm"}); },
                     "model.cell");
  // What the data and the size decide stays.
  common(config.model).vocabulary[0] = 9;
  common(config.model).dropout = 0.25;
  set_options(config, {"model.cell=lstm", "task.model=recurrent"});
  const auto& recurrent = config.model.as<SequenceToSequenceOptions>();
  EXPECT_EQ(recurrent.cell, "lstm");
  EXPECT_EQ(recurrent.mechanism, "bahdanau");
  EXPECT_EQ(recurrent.vocabulary, 9);
  EXPECT_EQ(recurrent.context, 30);
  EXPECT_EQ(recurrent.width, 64);
  EXPECT_EQ(recurrent.dropout, 0.25);
}

TEST(RunConfig, EveryExperimentIsOne) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(COGWHEEL_EXPERIMENTS)) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(load_config(entry.path())) << entry.path();
    ++found;
  }
  EXPECT_GE(found, 2u);
}

TEST(RunConfig, NamesTheNearestKeys) {
  expect_usage_error([] { parse_config("[model]\nwidht = 3", "my.toml"); },
                     "my.toml: key: expected model.width, model.window (the nearest of");
  expect_usage_error([] { parse_config("[modle]\nwidth = 3"); }, "model.width");
  expect_usage_error([] { parse_config("steps = 3"); }, "training.steps");
}

TEST(RunConfig, NamesTheTypeThatItExpected) {
  expect_usage_error([] { parse_config("[training]\nsteps = \"many\""); },
                     "training.steps: expected a whole number, got \"many\"");
  expect_usage_error([] { parse_config("[training]\nsteps = \"2\""); }, "expected a whole number, got \"2\"");
  expect_usage_error([] { parse_config("[training]\nsteps = 1.5"); }, "expected a whole number, got 1.5");
  expect_usage_error([] { parse_config("[training]\nsteps = 2.0"); }, "expected a whole number, got 2.0");
  expect_usage_error([] { parse_config("[training]\nsteps = true"); }, "expected a whole number, got true");
  expect_usage_error([] { parse_config("[model]\nbias = 1"); }, "model.bias: expected true or false, got 1");
  expect_usage_error([] { parse_config("name = 3"); }, "name: expected a string, got 3");
  expect_usage_error([] { parse_config("[data]\ntext = \"a\""); },
                     "data.text: expected an array of strings, got \"a\"");
  expect_usage_error([] { parse_config("[training]\nseed = -1"); }, "expected a whole number of at least 0, got -1");
  expect_usage_error([] { parse_config("[training\nseed = 1", "my.toml"); }, "my.toml: expected TOML, got");
}

TEST(RunConfig, ChecksEachValue) {
  expect_usage_error([] { parse_config("[model]\nheads = 5"); }, "a divisor of the width (128), got 5");
  expect_usage_error([] { parse_config("[model]\nmechanism = \"sotfmax\""); }, "softmax");
  expect_usage_error([] { parse_config("[model]\nposition = \"rotaty\""); },
                     "model.position: expected rotary (the nearest");
  expect_usage_error([] { parse_config("[model]\nnorm = \"batch\""); },
                     "model.norm: expected one of layer, rms, got batch");
  expect_usage_error([] { parse_config("[model]\nactivation = \"sine\""); },
                     "model.activation: expected one of gelu, swiglu, gelu_tanh, got sine");
  expect_usage_error([] { parse_config("[model]\ndropout = 1"); },
                     "model.dropout: expected at least 0 and below 1, got 1");
  expect_usage_error([] { parse_config("[model]\ndropout = nan"); }, "below 1, got nan");
  expect_usage_error([] { parse_config("[model]\nfirst_lambda_depth = 2"); }, "first_lambda_depth: expected 0 or 1");
  expect_usage_error([] { parse_config("[model]\nrotary_base = 1"); }, "model.rotary_base: expected above 1, got 1");
  expect_usage_error([] { parse_config("[model]\nkey_value_heads = 3"); }, "a divisor of the heads (4), got 3");
  expect_usage_error([] { parse_config("[model]\nkey_value_heads = -1"); },
                     "model.key_value_heads: expected at least 0");
  expect_usage_error([] { parse_config("[model]\nwidth = 36\nposition = \"rotary\""); },
                     "model.position: expected learned for an odd head_dim (9), got rotary");
  expect_usage_error([] { parse_config("[training]\nprecision = \"fp16\""); }, "training.precision: expected fp32");
  expect_usage_error([] { parse_config("[training]\nsteps = 0"); }, "training.steps: expected at least 1, got 0");
  expect_usage_error([] { parse_config("[data]\ntokenizer = \"word\""); }, "data.tokenizer: expected");
  expect_usage_error([] { parse_config("name = \"a/b\""); }, "name: expected a name for a folder");
  expect_usage_error([] { parse_config("name = \"a\\nb\""); }, "name: expected a name for a folder, got \"a\\nb\"");
}

TEST(RunConfig, LimitsHaveAnUpperEnd) {
  expect_usage_error([] { parse_config("[training]\nsteps = 9999999999999"); },
                     "training.steps: expected at most 100000000, got 9999999999999");
  expect_usage_error([] { parse_config("[training]\nsteps = 99999999999999999999"); }, "expected TOML, got");
  expect_usage_error([] { parse_config("[training]\nbatch = 9999999999999"); }, "training.batch: expected at most");
  expect_usage_error([] { parse_config("[model]\nlayers = 9999999999999"); }, "model.layers: expected at most 10000");
  expect_usage_error([] { parse_config("[model]\ncontext = 9999999999999"); }, "model.context: expected at most");
  expect_usage_error([] { parse_config("[model]\nlayers = 2\nfirst_softmax_layers = 9"); },
                     "model.first_softmax_layers: expected at most 2, got 9");
  expect_usage_error([] { parse_config("[model]\nlayers = 2\nfirst_softmax_layers = 1\nlast_softmax_layers = 2"); },
                     "model.last_softmax_layers: expected at most 1, got 2");
}

TEST(RunConfig, RoundTripsThroughItsRecord) {
  RunConfig config;
  config.data.text = {"a \"b\".txt"};
  config.model.as<tasks::language::LanguageModelOptions>().width = 96;
  config.training.learning_rate = 1.0 / 3;
  const auto record = to_json(config);
  EXPECT_EQ(to_toml(config_from_json(record, "record")), to_toml(config));
  RunConfig other = config;
  other.name = "another";
  other.data.text = {"elsewhere.txt"};
  EXPECT_FALSE(first_difference(record, to_json(other)));  // names and paths are not compared
  other.training.learning_rate = 0.25;
  other.training.clip = 2;
  EXPECT_EQ(first_difference(record, to_json(other))->key, "training.learning_rate");
  EXPECT_EQ(first_difference(record, to_json(other))->got, "0.25");
  auto shorter = record;
  shorter.erase("model.width");
  EXPECT_EQ(first_difference(record, shorter)->key, "model.width");
  EXPECT_EQ(first_difference(record, shorter)->got, "nothing");
  shorter = record;
  shorter.erase("model.layers");  // which is the default
  EXPECT_EQ(first_difference(record, shorter)->key, "model.layers");
  auto longer = record;
  longer["model.depth"] = 3;
  EXPECT_EQ(first_difference(record, longer)->key, "model.depth");
  EXPECT_THROW(config_from_json(longer, "record"), Error);
  EXPECT_THROW(config_from_json({{"a = 1\nmodel.width", 3}}, "record"), Error);
  EXPECT_THROW(config_from_json("text", "record"), Error);
}

TEST(RunConfig, AFormSetsWhatNothingElseSays) {
  const RunConfig config = parse_config(R"(
    [model]
    activation = "gelu"
    form = "llama"
    tied_head = true
    width = 96
  )");
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().activation, "gelu");
  EXPECT_TRUE(config.model.as<tasks::language::LanguageModelOptions>().tied_head);
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().norm, "rms");
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().position, "rotary");
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().width, 96);
  // Written out key by key, so that a reader needs to know no form.
  const std::string text = to_toml(config);
  EXPECT_EQ(text.find("form ="), std::string::npos);
  EXPECT_EQ(to_toml(parse_config(text)), text);

  RunConfig overridden;
  set_options(overridden, {"model.form=llama"});
  set_options(overridden, {"model.position=rotary_halves"});
  EXPECT_EQ(overridden.model.as<tasks::language::LanguageModelOptions>().activation, "swiglu");
  EXPECT_EQ(overridden.model.as<tasks::language::LanguageModelOptions>().position, "rotary_halves");
  set_options(overridden, {"model.form=gpt"});
  EXPECT_EQ(to_toml(overridden), to_toml(RunConfig{}));
  expect_usage_error([&] { set_options(overridden, {"model.form=lama"}); }, "model.form: expected llama (the nearest");
  expect_usage_error([] { parse_config("[model]\nform = 3"); }, "model.form: expected a string, got 3");
}

TEST(RunConfig, OverridesDoNotDependOnTheirOrder) {
  const std::vector<std::string> first{"model.norm=layer", "model.form=llama"},
      second{"model.form=llama", "model.norm=layer"};
  RunConfig a, b;
  set_options(a, first);
  set_options(b, second);
  EXPECT_EQ(to_toml(a), to_toml(b));
  EXPECT_EQ(a.model.as<tasks::language::LanguageModelOptions>().norm, "layer");
  EXPECT_EQ(a.model.as<tasks::language::LanguageModelOptions>().activation, "swiglu");
}

// The keys of a file's model stay where the model of the task that --set names has them.
TEST(RunConfig, AnotherTaskKeepsTheKeysThatItsModelHas) {
  const std::string text = "[model]\nmechanism = \"cog\"\nlayers = 2\nwidth = 32\nheads = 2\n";
  const RunConfig config = parse_config(text, "m.toml", {"model.width=48", "task.name=sentences"});
  const auto& model = config.model.as<tasks::encoders::EncoderOptions>();
  EXPECT_EQ(model.mechanism, "cog");
  EXPECT_EQ(std::tuple(model.layers, model.heads, model.width), std::tuple(2, 2, 48));
  EXPECT_EQ(model.context, tasks::encoders::EncoderOptions().context);
  expect_usage_error([&] { parse_config(text + "norm = \"rms\"\n", "m.toml", {"task.name=sentences"}); },
                     "m.toml, for the task sentences: key: expected");
  expect_usage_error([&] { parse_config(text + "form = \"llama\"\n", "m.toml", {"task.name=\"images\""}); },
                     "got model.form");
  // The model of the file's own task is no matter then.
  EXPECT_EQ(parse_config("[task]\nname = \"images\"\n[model]\nnorm = \"rms\"\n", "m.toml", {"task.name=recall"})
                .model.as<tasks::language::LanguageModelOptions>()
                .norm,
            "rms");
}

TEST(RunConfig, OverridesSayWhatTheyExpect) {
  RunConfig config;
  const auto refused = [&](const std::string& assignment, const std::string& words) {
    expect_usage_error([&] { set_options(config, {assignment}); }, words);
  };
  refused("training.steps=three", "--set training.steps: expected a whole number, got \"three\"");
  refused("training.steps=", "--set training.steps: expected a whole number, got \"\"");
  refused("training.steps=9223372036854775808",
          "--set training.steps: expected a whole number up to 9223372036854775807, got \"9223372036854775808\"");
  refused("training.seed=18446744073709551615", "expected a whole number up to 9223372036854775807, got");
  refused("training.steps=3x", "expected a whole number, got \"3x\"");
  refused("training.steps=3 # many", "expected a whole number, got \"3 # many\"");
  refused("training.steps=3\nseed = 4", "expected a whole number, got \"3 seed = 4\"");
  refused("training.learning_rate=fast", "expected a number, got \"fast\"");
  refused("model.bias=yes", "expected true or false, got \"yes\"");
  refused("data.text=[\"a\"", "expected an array of strings, got");
  // Options of tasks may be anything; what is no number is a name.
  set_options(config, {"task.images=2024-01-01", "task.path=3 birds/a#b", "task.rate=nan", "task.file=12#3"});
  EXPECT_EQ(config.task.values,
            (std::map<std::string, ConfigValue>{
                {"images", "2024-01-01"}, {"path", "3 birds/a#b"}, {"rate", "nan"}, {"file", "12#3"}}));
}

// Each part of a key is a table in the one before.
TEST(RunConfig, RefusesTablesNestedBeyondReason) {
  std::string parts = "a";
  for (int part = 0; part < 100'000; ++part) parts += ".a";
  for (const std::string& text :
       {"[" + parts + "]\n", "[[" + parts + "]]\n", parts + " = 1\n", "x = {" + parts + " = 1}\n"})
    expect_usage_error([&] { parse_config(text, "deep.toml"); },
                       "deep.toml: expected TOML whose keys have at most 17 parts, got a longer one (line 1)");
  std::string values = "x = ", tables = "x = ";
  for (int part = 0; part < 100'000; ++part) values += "[", tables += "{a=";
  expect_usage_error([&] { parse_config(values, "deep.toml"); }, "deep.toml: expected TOML, got");
  expect_usage_error([&] { parse_config(tables, "deep.toml"); }, "deep.toml: expected TOML, got");
  // Points in strings, numbers and comments are none of keys.
  const std::string points(200, '.');
  EXPECT_EQ(parse_config("name = \"a" + points + "\" # " + points + "\n[training]\nlearning_rate = 0.5\n").name,
            "a" + points);
  EXPECT_EQ(parse_config("name = '''a" + points + "'''\n").name, "a" + points);
}

TEST(RunConfig, TakesOverrides) {
  RunConfig config;
  set_options(config, {"training.steps=12"});
  set_options(config, {"model.mechanism=cog"});
  set_options(config, {"data.text=one.txt"});
  set_options(config, {"model.bias=true"});
  EXPECT_EQ(config.training.steps, 12);
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().mechanism, "cog");
  EXPECT_EQ(config.data.text, std::vector<std::string>{"one.txt"});
  set_options(config, {R"(data.text=["a", "b"])"});
  EXPECT_EQ(config.data.text.size(), 2u);
  set_options(config, {"model.heads=6", "model.width=96"});
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().width, 96);
  expect_usage_error([&] { set_options(config, {"model.width=192", "training.steps=0"}); }, "at least 1, got 0");
  EXPECT_EQ(config.model.as<tasks::language::LanguageModelOptions>().width, 96);
  expect_usage_error([&] { set_options(config, {"training.step=3"}); }, "training.steps");
  expect_usage_error([&] { set_options(config, {"training.steps"}); }, "--set: expected key=value");
  expect_usage_error([&] { set_options(config, {"training.steps=-3"}); }, "at least 1, got -3");
  EXPECT_EQ(config.training.steps, 12);
}

// Options of tasks round-trip unchanged; only the task knows which exist.
TEST(RunConfig, KeepsTheOptionsOfTasks) {
  RunConfig config = parse_config("[task]\nname = \"copying\"\nsymbols = 5\n");
  set_options(config, {"task.rate=0.5", "task.kind=word", "task.on=true"});
  EXPECT_EQ(config.task.name, "copying");
  const auto is_kept = [&](const RunConfig& other) {
    EXPECT_EQ(other.task.name, "copying");
    EXPECT_EQ(other.task.values, (std::map<std::string, ConfigValue>{
                                     {"symbols", std::int64_t{5}}, {"rate", 0.5}, {"kind", "word"}, {"on", true}}));
  };
  is_kept(config);
  is_kept(parse_config(to_toml(config)));
  is_kept(config_from_json(to_json(config), "record"));
  RunConfig other = config;
  other.task.values["symbols"] = std::int64_t{6};
  EXPECT_EQ(first_difference(to_json(config), to_json(other))->key, "task.symbols");
  other.task.values.erase("symbols");
  EXPECT_EQ(first_difference(to_json(config), to_json(other))->key, "task.symbols");
  EXPECT_EQ(first_difference(to_json(other), to_json(config))->key, "task.symbols");
}

}  // namespace
}  // namespace cogwheel::runs
