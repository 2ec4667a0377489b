// train, resume and sample from end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <thread>

#include "cli/process.h"
#include "support/temporary_folder.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() {
    std::string text;
    for (int line = 0; line < 300; ++line) text += "line " + std::to_string(line * line) + " of the text\n";
    folder.write("text.txt", text);
    folder.write("config.toml", R"(
      name = "tiny"
      [data]
      text = ["text.txt"]
      [model]
      context = 16
      layers = 1
      heads = 2
      width = 32
      [training]
      steps = 30
      batch = 4
      warm_up = 2
      evaluate_every = 10
      checkpoint_every = 10
    )");
  }

  Outcome run(const std::vector<std::string>& arguments) const { return cogwheel(arguments, folder.path()); }

  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder.path() / name, std::ios::binary).rdbuf();
    return text.str();
  }

  void expect_refused(const std::vector<std::string>& arguments, int exit_code, const std::string& part) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.errors;
    EXPECT_TRUE(outcome.errors.starts_with("cogwheel: ")) << outcome.errors;
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  }

  const TemporaryFolder folder;
};

TEST_F(TrainCommand, TrainsAndSamples) {
  const Outcome trained = run({"train", "config.toml"});
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_NE(trained.output.find("held-out loss "), std::string::npos) << trained.output;
  // Not a terminal: plain lines, no control characters.
  EXPECT_NE(trained.errors.find("tiny: step 30/30  loss "), std::string::npos) << trained.errors;
  EXPECT_EQ(trained.errors.find('\033'), std::string::npos);
  EXPECT_TRUE(fs::is_symlink(folder.path() / "runs/latest"));

  const std::vector<std::string> sample = {"sample", "runs/latest", "--prompt", "line", "--length", "20"};
  const Outcome sampled = run(sample);
  EXPECT_EQ(sampled.exit_code, 0) << sampled.errors;
  EXPECT_TRUE(sampled.output.starts_with("line"));
  EXPECT_EQ(sampled.output.size(), 25u);
  EXPECT_EQ(run(sample).output, sampled.output);
  expect_refused({"sample", "runs/latest", "--prompt", "€"}, 2, "--prompt: expected one of the ");
  EXPECT_NE(run({"resume", "runs/latest"}).output.find("has made all of its 30 steps"), std::string::npos);
}

TEST_F(TrainCommand, SamplesNoRunOfATaskWithoutText) {
  ASSERT_EQ(
      run({"train", "config.toml", "--out", "copies", "--set", "task.name=copying", "data.text=[]", "training.steps=2"})
          .exit_code,
      0);
  expect_refused({"sample", "copies"}, 1, "copies: expected a run of a task that can be sampled: language_modelling");
}

TEST_F(TrainCommand, GivesTheSameRunAgain) {
  ASSERT_EQ(run({"train", "config.toml", "--out", "first"}).exit_code, 0);
  // The config.toml that a run writes is a configuration like any other.
  ASSERT_EQ(run({"train", "first/config.toml", "--out", "second"}).exit_code, 0);
  const auto tensors = [&](const std::string& name) {
    // After the header, whose length varies with the recorded seconds.
    const std::string file = read(name + "/checkpoint.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof(header));
    return file.substr(sizeof(header) + header);
  };
  EXPECT_TRUE(tensors("first") == tensors("second"));
  EXPECT_EQ(read("first/config.toml"), read("second/config.toml"));
}

TEST_F(TrainCommand, StopsAtCtrlCAndResumes) {
  CogwheelProcess process({"train", "config.toml", "--set", "training.steps=100000", "--out", "run"}, folder.path());
  for (int wait = 0; wait < 1000 && read("run/metrics.jsonl").empty(); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const TemporaryFolder elsewhere;
  const std::string path = (folder.path() / "run").string();
  EXPECT_EQ(cogwheel({"resume", path}, elsewhere.path()).errors,
            "cogwheel: " + path + ": expected a run that is not in use, got one that another process is using\n");
  process.interrupt();
  const Outcome stopped = process.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.errors;
  EXPECT_NE(stopped.errors.find("`cogwheel resume run` continues"), std::string::npos) << stopped.errors;

  CogwheelProcess resumed({"resume", "run"}, folder.path());
  const std::string before = read("run/metrics.jsonl");
  for (int wait = 0; wait < 1000 && read("run/metrics.jsonl").size() <= before.size(); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  resumed.interrupt();
  EXPECT_EQ(resumed.wait().exit_code, 130);
  EXPECT_GT(read("run/metrics.jsonl").size(), before.size());
  EXPECT_TRUE(read("run/metrics.jsonl").starts_with(before));

  // Another length is another run.
  std::string config = read("run/config.toml");
  config.replace(config.find("steps = 100000"), 14, "steps = 200000");
  folder.write("run/config.toml", config);
  expect_refused({"resume", "run"}, 1, "run/checkpoint.safetensors: training.steps: expected 200000, got 100000");
}

TEST_F(TrainCommand, RefusesTextThatIsNone) {
  folder.write("empty.txt", "");
  folder.write("short.txt", "a few words");
  folder.write("picture.png", std::string("text before\x89PNG\r\n\x1a\n") + std::string(4000, '\0'));
  expect_refused({"train", "config.toml", "--text", "missing.txt"}, 1,
                 "text: expected a file or folder, got none at missing.txt");
  expect_refused({"train", "config.toml", "--text", "empty.txt"}, 1, "empty.txt: expected text, got an empty file");
  expect_refused({"train", "config.toml", "--text", "/proc/self/mem"}, 1, "expected a file that can be read, got");
  expect_refused({"train", "config.toml", "--text", "short.txt"}, 1,
                 "short.txt: expected at least 170 tokens, for a context of 16");
  expect_refused({"train", "config.toml", "--text", "picture.png"}, 1,
                 "picture.png: expected text in UTF-8 (other files: tokenizer \"byte\"), got byte 0x89 at offset 11");
  EXPECT_EQ(run({"train", "config.toml", "--text", "picture.png", "--set", "data.tokenizer=byte"}).exit_code, 0);
}

TEST_F(TrainCommand, RefusesValuesThatCannotBe) {
  expect_refused({"train", "config.toml", "--set", "model.heads=8"}, 2, "8 to 1024, got 4");
  expect_refused({"train", "config.toml", "--set", "model.mechanism=diferential"}, 2, "differential");
  expect_refused({"train", "config.toml", "--set", "training.stepz=3"}, 2, "training.steps");
  expect_refused({"train", "config.toml", "--set", "training.steps=few"}, 2,
                 "--set training.steps: expected a whole number, got \"few\"");
  expect_refused({"train", "missing.toml"}, 2, "config: expected a file, or an experiment");
}

TEST_F(TrainCommand, KeepsWhatIsThere) {
  ASSERT_EQ(run({"train", "config.toml", "--out", "run"}).exit_code, 0);
  const std::string checkpoint = read("run/checkpoint.safetensors");
  expect_refused({"train", "config.toml", "--out", "run"}, 2, "run: expected a new or empty folder");
  EXPECT_EQ(read("run/checkpoint.safetensors"), checkpoint);
  expect_refused({"train", "config.toml", "--out", "text.txt"}, 1, "text.txt: expected a folder that can be made");
  expect_refused({"train", "config.toml", "--out", "/proc/run"}, 1, "/proc/run: expected a folder that can be made");
  EXPECT_EQ(run({"train", "config.toml", "--out", "run", "--overwrite"}).exit_code, 0);
}

TEST_F(TrainCommand, OverwritesOnlyWhatItWrote) {
  const std::string config = read("config.toml");
  expect_refused({"train", "config.toml", "--out", ".", "--overwrite"}, 2,
                 ".: expected a run to overwrite, got one that");
  EXPECT_EQ(read("config.toml"), config);
}

TEST_F(TrainCommand, KeepsItsOwnFilesOutOfItsText) {
  folder.write("corpus/text.txt", read("text.txt"));
  folder.write("corpus/picture.png", std::string(10, '\0'));
  const Outcome trained =
      run({"train", "config.toml", "--text", "corpus", "--out", "corpus/run", "--set", "training.steps=10"});
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_NE(trained.errors.find("left out of the text: 1 binary file (corpus/picture.png)\n"), std::string::npos)
      << trained.errors;
  EXPECT_NE(read("corpus/run/text.json").find("corpus/text.txt"), std::string::npos);
  EXPECT_EQ(run({"resume", "corpus/run"}).exit_code, 0);
  folder.write("corpus/text.txt", read("text.txt") + "more");
  expect_refused({"resume", "corpus/run"}, 1, "corpus/text.txt has changed");
}

TEST_F(TrainCommand, SaysThatAFileMayNotGrow) {
  const Outcome outcome = CogwheelProcess({"train", "config.toml", "--out", "run"}, folder.path(), 1 << 16).wait();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_NE(
      outcome.errors.find("cogwheel: run/checkpoints/0.safetensors: expected a file that can be written, got File "
                          "too large\n"),
      std::string::npos)
      << outcome.errors;
}

TEST_F(TrainCommand, SaysThatTheLossWasLost) {
  const Outcome outcome = run({"train", "config.toml", "--out", "run", "--set", "training.learning_rate=1e30",
                               "training.final_learning_rate=1e30", "training.clip=0"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("expected a finite number, got "), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("; the last good checkpoint is in run"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(fs::exists(folder.path() / "run/checkpoint.safetensors"));
}

TEST_F(TrainCommand, RefusesADamagedCheckpoint) {
  ASSERT_EQ(run({"train", "config.toml", "--out", "run"}).exit_code, 0);
  const std::string checkpoint = read("run/checkpoint.safetensors");
  folder.write("run/checkpoint.safetensors", checkpoint.substr(0, checkpoint.size() - 100));
  expect_refused({"sample", "run"}, 1, "run/checkpoint.safetensors: expected a whole safetensors file");
  // With no other one that is whole; test_long_runs.py has those that have.
  fs::remove_all(folder.path() / "run/checkpoints");
  const Outcome resumed = run({"resume", "run"});
  EXPECT_EQ(resumed.exit_code, 1);
  EXPECT_TRUE(resumed.errors.starts_with("cogwheel: run/checkpoint.safetensors: expected a whole safetensors file"))
      << resumed.errors;
  expect_refused({"evaluate", "run"}, 1, "run/checkpoint.safetensors: expected a whole safetensors file");
}

}  // namespace
}  // namespace cogwheel::cli
