#include "cogwheel/train/checkpoint.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"
#include "core/temporary_folder.h"
#include "train/tiny_run.h"

namespace cogwheel {
namespace {

TEST(SafeTensors, GivesBackWhatWasSaved) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tensors";
  const SafeTensors saved{.tensors = {{"a", at::randn({3, 4})},
                                      {"b", at::arange(5)},
                                      {"c", at::randn({2}, at::kDouble)},
                                      {"empty", at::empty({0, 3})},
                                      {"scalar", at::scalar_tensor(2.5)},
                                      {"transposed", at::randn({4, 6}).t()}},
                          .metadata = {{"key", "a \"quoted\" value"}}};
  save_safetensors(saved, path);
  const SafeTensors loaded = load_safetensors(path);
  EXPECT_EQ(loaded.metadata, saved.metadata);
  ASSERT_EQ(loaded.tensors.size(), saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) {
    EXPECT_EQ(loaded.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(loaded.tensors.at(name).equal(tensor)) << name;
  }
}

// Byte for byte as the format's description lays it out.
TEST(SafeTensors, WritesThePublishedLayout) {
  const TemporaryFolder folder;
  save_safetensors({.tensors = {{"x", at::ones({1})}}, .metadata = {}}, folder.path() / "file");
  const std::string header = R"({"x":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded.size());
  EXPECT_EQ(read_file(folder.path() / "file"), expected + padded + std::string("\0\0\x80\x3f", 4));
}

TEST(SafeTensors, RefusesADamagedFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  save_safetensors({.tensors = {{"x", at::ones({4})}}, .metadata = {}}, path);
  const std::string whole = read_file(path);
  const auto refused = [&](const std::string& contents) {
    EXPECT_THROW(load_safetensors(folder.write("damaged", contents)), Error) << contents.size();
  };
  for (std::size_t length = 0; length < whole.size(); length += 5) refused(whole.substr(0, length));
  refused(whole + "more");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string contents = whole;
    contents.replace(contents.find(from), from.size(), to);
    return contents;
  };
  refused(replaced("[0,16]", "[8,16]"));
  refused(replaced("[0,16]", "[0,99]"));
  refused(replaced("[4]", "[5]"));
  refused(replaced("[4]", "\"\""));
  refused(replaced("F32", "F31"));
  refused(replaced("{", "["));
}

TEST(Checkpoint, GoesOnBitForBit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  LanguageModelOptions dropped = tiny_llama("cog");
  dropped.dropout = 0.2;
  TrainingOptions half = tiny_training();
  half.precision = "bf16";
  const std::vector<std::pair<LanguageModelOptions, TrainingOptions>> cases = {
      {tiny_model("cog"), tiny_training()}, {tiny_model("differential"), tiny_training()}, {dropped, half}};
  for (const auto& [model, training] : cases) {
    TrainingRun unbroken(model, training, tiny_data()), first(model, training, tiny_data()),
        resumed(model, training, tiny_data());
    std::vector<double> unbroken_losses, resumed_losses;
    const auto collect = [](std::vector<double>& losses) {
      return [&losses](const StepReport& report) {
        if (report.step > 11) losses.push_back(report.train_loss);
      };
    };
    unbroken.train({.report = collect(unbroken_losses), .checkpoint = {}});
    std::atomic<bool> stop = false;
    first.train(
        {.report = [&](const StepReport& report) { stop = report.step == 10; }, .checkpoint = {}, .stop = &stop});
    first.step();  // between two reports, so that the unfinished mean travels too
    first.save(path);
    EXPECT_TRUE(resumed.load(path).empty());
    EXPECT_EQ(resumed.steps_done(), 11);
    EXPECT_EQ(resumed.last_train_loss(), first.last_train_loss());
    resumed.train({.report = collect(resumed_losses), .checkpoint = {}});
    EXPECT_TRUE(same_weights(unbroken, resumed)) << model.mechanism;
    EXPECT_EQ(unbroken_losses, resumed_losses) << model.mechanism;
    EXPECT_EQ(unbroken.last_held_out_loss(), resumed.last_held_out_loss());
    EXPECT_EQ(unbroken.best_held_out_loss(), resumed.best_held_out_loss());
  }
}

TEST(Checkpoint, LeavesTheRunAloneWhereItIsRefused) {
  const TemporaryFolder folder;
  TrainingRun other = tiny_run("cog"), run = tiny_run(), same = tiny_run();
  other.step();
  other.save(folder.path() / "other");
  EXPECT_THROW(same.load(folder.path() / "other"), Error);
  LanguageModelOptions halves = tiny_llama();
  TrainingRun interleaved(halves, tiny_training(), tiny_data());
  halves.position = "rotary_halves";
  TrainingRun by_halves(halves, tiny_training(), tiny_data());
  interleaved.save(folder.path() / "interleaved");
  EXPECT_THROW(by_halves.load(folder.path() / "interleaved"), Error);
  run.step();
  run.save(folder.path() / "whole");
  const std::string whole = read_file(folder.path() / "whole");
  folder.write("cut", whole.substr(0, whole.size() / 2));
  EXPECT_THROW(same.load(folder.path() / "cut"), Error);
  EXPECT_THROW(same.load(folder.path() / "missing"), Error);
  EXPECT_EQ(same.steps_done(), 0);
  TrainingRun fresh = tiny_run();
  EXPECT_TRUE(same_weights(same, fresh));
}

TEST(Checkpoint, WarnsOnAnotherMachine) {
  const TemporaryFolder folder;
  const int threads = at::get_num_threads();
  TrainingRun run = tiny_run();
  run.save(folder.path() / "checkpoint");
  at::set_num_threads(threads + 1);
  const auto differences = run.load(folder.path() / "checkpoint");
  at::set_num_threads(threads);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_NE(differences[0].find("threads"), std::string::npos) << differences[0];
}

}  // namespace
}  // namespace cogwheel
