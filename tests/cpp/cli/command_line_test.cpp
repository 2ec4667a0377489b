#include <gtest/gtest.h>

#include <algorithm>

#include "cli/process.h"
#include "cogwheel/cli/progress.h"
#include "support/temporary_folder.h"

namespace cogwheel::cli {
namespace {

void expect_refused(const std::vector<std::string>& arguments, int exit_code, const std::string& message) {
  const TemporaryFolder folder;
  const Outcome outcome = cogwheel(arguments, folder.path());
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.errors;
  EXPECT_TRUE(outcome.errors.starts_with("cogwheel: " + message)) << outcome.errors;
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
}

TEST(CommandLine, NamesTheNearest) {
  expect_refused({"trian"}, 2, "command: expected train");
  expect_refused({}, 2, "command: expected one of ");
  expect_refused({"train", "--txt", "a"}, 2, "train: option: expected --text");
  expect_refused({"list", "mechanism"}, 2, "list: expected mechanisms (the nearest of 5 names), got mechanism");
  expect_refused({"train", "nanogpt-shakespear"}, 2, "config: expected a file, or an experiment: nanogpt-shakespeare");
  expect_refused({"train", "nanogpt-shakespeare", "--set", "model.mechanism=sofmax"}, 2,
                 "model.mechanism: expected softmax");
}

TEST(CommandLine, RefusesArgumentsThatDoNotFit) {
  expect_refused({"train"}, 2, "train: expected config, got nothing");
  expect_refused({"sample", "run", "--length", "many"}, 2,
                 "--length: expected a whole number from 0 to 1000000, got many");
  expect_refused({"sample", "run", "--temperature", "-1"}, 2, "--temperature: expected at least 0, got -1");
  expect_refused({"embed", "run", "--tokens", "x", "--out", "a.safetensors"}, 2,
                 "--tokens: expected a whole number from 0 to 65536, got x");
  // Beyond 64 bits.
  expect_refused({"sample", "run", "--length", "99999999999999999999"}, 2,
                 "--length: expected at most 1000000, got 99999999999999999999");
  expect_refused({"compare", "--seeds", "18446744073709551616"}, 2,
                 "--seeds: expected at most 1000, got 18446744073709551616");
  expect_refused({"compare", "--steps", "99999999999999999999"}, 2,
                 "--steps: expected at most 100000000, got 99999999999999999999");
  expect_refused({"sample", "run"}, 1, "run: expected the folder of a run, got no config.toml in it");
  expect_refused({"resume", "nowhere"}, 1, "nowhere: expected the folder of a run, got no config.toml in it");
}

// As of a variable of a shell that is not set: it would be taken for no option at all.
TEST(CommandLine, RefusesEmptyValues) {
  expect_refused({"compare", "--resume", ""}, 2, "--resume: expected a folder, got an empty value");
  expect_refused({"compare", "--text", ""}, 2, "--text: expected a file or folder, got an empty value");
  expect_refused({"compare", "--attention", ""}, 2, "--attention: expected names, got an empty value");
  expect_refused({"compare", "--attention", "softmax, "}, 2, "--attention: expected one of ");
  expect_refused({"compare", "--baseline="}, 2, "compare: --baseline: expected NAME, got nothing");
  expect_refused({"compare", "--seeds", ""}, 2, "--seeds: expected a whole number from 1 to 1000, got nothing");
  expect_refused({"train", "config.toml", "--out", ""}, 2, "--out: expected a folder, got an empty value");
  expect_refused({"train", "config.toml", "--images", ""}, 2,
                 "--images: expected a file or folder, got an empty value");
  expect_refused({"sample", "run", "--class", ""}, 2, "--class: expected a name, got an empty value");
  expect_refused({"view", "run", "--export", ""}, 2, "--export: expected a file, got an empty value");
  expect_refused({"list", ""}, 2, "list: expected one of mechanisms, tasks, experiments, kernels, architectures, got ");
  expect_refused({"sample", ""}, 2, "run: expected the folder of a run, got nothing");
}

TEST(CommandLine, RefusesTooManyValuesAndTooFew) {
  expect_refused({"compare", "--preset", "tiny", "--preset", "small"}, 2,
                 "compare: --preset: expected at most 1 value, got 2");
  expect_refused({"compare", "--preset"}, 2, "compare: --preset: expected NAME, got nothing");
  expect_refused({"compare", "--add", "cog"}, 2, "compare: --add: expected at least 2 values, got 1");
  expect_refused({"train", "one", "two"}, 2, "train: expected no further argument, got two");
  expect_refused({"view", "a", "b", "c"}, 2, "view: runs: expected at most 2 values, got 3");
}

TEST(CommandLine, ShowsHelp) {
  const TemporaryFolder folder;
  const Outcome outcome = cogwheel({"--help"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0);
  std::size_t position = 0;
  for (const char* command : {"train ", "resume ", "sample ", "list "}) {
    position = outcome.output.find(std::string("\n  ") + command, position);
    ASSERT_NE(position, std::string::npos) << command;
  }
  for (const char* command : {"train", "resume", "sample", "list"})
    EXPECT_EQ(cogwheel({command, "--help"}, folder.path()).exit_code, 0) << command;
  EXPECT_EQ(cogwheel({"help"}, folder.path()).output, outcome.output);
  EXPECT_EQ(cogwheel({"help", "train"}, folder.path()).output, cogwheel({"train", "--help"}, folder.path()).output);
  EXPECT_NE(cogwheel({"help", "train"}, folder.path()).output.find("--overwrite"), std::string::npos);
  expect_refused({"help", "trian"}, 2, "command: expected train");
}

// Data that another task reads name it.
TEST(CommandLine, DataSayWhoseTheyAre) {
  expect_refused({"compare", "--source", "a", "--target", "b"}, 2,
                 "--source: expected the task translation, got language_modelling");
  expect_refused({"compare", "--task", "images", "--held-out-sentences", "a"}, 2,
                 "--held-out-sentences: expected the task sentences or masked_words, got images");
  expect_refused({"compare", "--task", "images", "--text", "a"}, 2,
                 "--text: expected the task language_modelling, got images");
  expect_refused({"compare", "--task", "recall", "--tokenizer", "byte"}, 2,
                 "--tokenizer: expected the task language_modelling, got recall");
  expect_refused({"train", "ioi", "--images", "a"}, 2, "--images: expected the task images or diffusion, got ioi");
  expect_refused({"train", "ioi", "--text", "a", "--set", "data.text=b"}, 2,
                 "--set: expected no data.text beside --text, got data.text=b");
}

TEST(ProgressLine, KeepsTheTimeThatIsLeft) {
  const ProgressWords words{.step = "step 1200/20000",
                            .loss = "loss 4.1234",
                            .measured = "held-out 4.1300",
                            .speed = "12.3 k tokens/s",
                            .left = "12 min 30 s left"};
  const auto columns = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
  };
  const std::string name = "differential_symmetric_sigmoid seed 12";
  for (std::size_t room : {20, 40, 60, 79, 100, 130, 200})
    for (const std::string& label : {std::string("cog seed 1"), name, "größer " + name}) {
      const std::string line = progress_line(label, 0.5, words, room);
      EXPECT_LE(columns(line), static_cast<std::ptrdiff_t>(room)) << line;
      if (room >= 60) {
        EXPECT_TRUE(line.ends_with("  12 min 30 s left")) << line;
        EXPECT_NE(line.find("step 1200/20000"), std::string::npos) << line;
      }
    }
  EXPECT_EQ(progress_line("cog", 0.5, words, 200), "cog ████████████░░░░░░░░░░░░ " + words.text());
  EXPECT_EQ(progress_line("cog", 0.25, words, 79),
            "cog ██░░░░░░░░░ step 1200/20000  loss 4.1234  held-out 4.1300  12 min 30 s left");
  EXPECT_EQ(progress_line("cog", 0.25, words, 60), "cog █░░░░ step 1200/20000  held-out 4.1300  12 min 30 s left");
}

TEST(CommandLine, ListsWhatThereIs) {
  const TemporaryFolder folder;
  const Outcome mechanisms = cogwheel({"list", "mechanisms"}, folder.path());
  EXPECT_EQ(mechanisms.exit_code, 0);
  for (const char* name : {"\nsoftmax ", "\ncog ", "\ndifferential ", "\nsymmetric ", "\ngla ", "centered_cog, … ("})
    EXPECT_NE(mechanisms.output.find(name), std::string::npos) << name;
  const Outcome everything = cogwheel({"list"}, folder.path());
  EXPECT_EQ(everything.exit_code, 0);
  for (const char* word : {"mechanisms\n", "softmax", "experiments\n", "nanogpt-shakespeare", "kernels\n", "float32"})
    EXPECT_NE(everything.output.find(word), std::string::npos) << word;
  EXPECT_NE(cogwheel({"list", "kernels"}, folder.path()).output.find("float32"), std::string::npos);
  EXPECT_NE(cogwheel({"list", "experiments"}, folder.path()).output.find("nanogpt-shakespeare"), std::string::npos);
}

}  // namespace
}  // namespace cogwheel::cli
