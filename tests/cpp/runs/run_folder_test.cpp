#include "cogwheel/runs/run_folder.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "runs/tiny_run.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::runs {
namespace {

RunConfig tiny_config() {
  RunConfig config;
  config.name = "tiny";
  config.model = tiny_model();
  config.training = tiny_training();
  return tiny_task()->completed(config);
}

RunFolder make(const std::filesystem::path& path, bool overwrite = false) {
  return RunFolder::create(path, tiny_config(), tiny_task()->assets(), overwrite);
}

TEST(RunFolder, HoldsARunThatCanBeReopened) {
  const TemporaryFolder temporary;
  const RunFolder folder = make(temporary.path() / "run");
  TrainingRun run = tiny_run();
  EXPECT_EQ(train_in_folder(run, folder), TrainingStatus::finished);
  const RunFolder opened = RunFolder::open(folder.path());
  EXPECT_EQ(to_toml(load_config(opened.config_path())), to_toml(tiny_config()));
  EXPECT_EQ(text::load_tokenizer(opened.tokenizer_path())->vocabulary(), tiny_data()->tokenizer->vocabulary());
  EXPECT_EQ(held_out_loss(read_metrics(opened.metrics_path()).back().measured), held_out_loss(run.last_measured()));
  tasks::language::LanguageModel model = *tasks::language::load_language_model(opened);
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().equal(run.model()->named_parameters()[parameter.key()])) << parameter.key();
}

TEST(RunFolder, IsNotOverwrittenUnasked) {
  const TemporaryFolder temporary;
  const auto path = temporary.path() / "run";
  make(path);
  const std::string config = read_file(path / "config.toml");
  try {
    make(path);
    ADD_FAILURE() << "overwritten";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("expected a new or empty folder (or --overwrite), got one"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(read_file(path / "config.toml"), config);
  temporary.write("run/notes.txt", "mine");
  temporary.write("run/checkpoint.safetensors", "old");
  make(path, true);
  EXPECT_EQ(read_file(path / "notes.txt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(path / "checkpoint.safetensors"));
}

TEST(RunFolder, RefusesAPlaceThatCannotBeWritten) {
  const TemporaryFolder temporary;
  temporary.write("file", "text");
  EXPECT_THROW(make(temporary.path() / "file"), Error);
  EXPECT_THROW(make(temporary.path() / "file" / "below"), Error);
  EXPECT_THROW(make("/proc/cogwheel"), Error);
  EXPECT_EQ(read_file(temporary.path() / "file"), "text");
}

// What a user may name as a place to write to.
TEST(RunFolder, AResultIsNoPlaceForOthers) {
  const TemporaryFolder temporary;
  const auto refused = [](const std::filesystem::path& out) {
    return usage_error_of([&] { expect_no_run_file(out, "--out"); });
  };
  const auto expected = [](const std::string& whose, const std::filesystem::path& out) {
    return "--out: expected a place of its own, not the files of the " + whose + ", got " + out.string();
  };
  for (const std::string kind : {"comparison", "study", "reproduction", "export"}) {
    temporary.write(kind + "/.cogwheel", kind + "\n");
    const auto report = temporary.write(kind + "/report.html", "its own");
    const auto folder = temporary.path() / kind;
    EXPECT_EQ(refused(folder), expected(kind, folder));
    EXPECT_EQ(refused(folder / ""), expected(kind, folder / ""));
    EXPECT_EQ(refused(report), expected(kind, report));
    EXPECT_EQ(refused(folder / "new"), "nothing thrown");
  }
  make(temporary.path() / "run");
  temporary.write("run/checkpoint.safetensors", "weights");
  const auto run = temporary.path() / "run";
  EXPECT_EQ(refused(run), expected("run", run));
  EXPECT_EQ(refused(run / "evaluation.html"), expected("run", run / "evaluation.html"));
  EXPECT_EQ(refused(run / "samples.png"), "nothing thrown");
  temporary.write("mine/notes.txt", "");
  EXPECT_EQ(refused(temporary.path() / "mine"), "nothing thrown");
}

TEST(RunFolder, RefusesToOpenWhatIsNone) {
  const TemporaryFolder temporary;
  try {
    RunFolder::open(temporary.path());
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected the folder of a run, got no config.toml in it"),
              std::string::npos)
        << error.what();
  }
}

// What runs/latest is after a comparison.
TEST(RunFolder, NamesTheRunsOfAComparison) {
  const TemporaryFolder temporary;
  const auto message = [&] {
    try {
      RunFolder::open(temporary.path());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("opened");
  };
  const std::string start = temporary.path().string() + ": expected the folder of a run, got a comparison";
  const FolderLock lock(temporary.path(), comparison_kind);
  EXPECT_EQ(message(), start + " without runs");
  const auto trained = temporary.path() / trained_folder;
  std::filesystem::create_directories(trained / "notes-seed-1");  // is none
  std::string names;
  for (int seed = 1; seed <= 8; ++seed) {
    make(trained / ("cog-seed-" + std::to_string(seed)));
    if (seed <= 6) names += (seed == 1 ? "" : ", ") + (trained / ("cog-seed-" + std::to_string(seed))).string();
  }
  EXPECT_EQ(message(), start + ", whose runs are " + names + " and 2 more");
}

TEST(RunFolder, KeepsTheLastGoodCheckpointWhenTheLossIsLost) {
  const TemporaryFolder temporary;
  const RunFolder folder = make(temporary.path() / "run");
  TrainingRun run = tiny_run();
  const auto spoil = [&](const StepReport& report) {
    if (report.step != 10) return;
    const torch::NoGradGuard no_grad;
    run.model()->named_parameters()["final_norm.weight"].fill_(std::numeric_limits<float>::infinity());
  };
  const auto status = train_in_folder(run, folder, {.report = spoil, .checkpoint = {}});
  EXPECT_EQ(status, TrainingStatus::non_finite);
  TrainingRun resumed = tiny_run();
  resumed.load(folder.checkpoint_path());
  EXPECT_EQ(resumed.steps_done(), 6);
  EXPECT_EQ(train_in_folder(resumed, folder), TrainingStatus::finished);
}

TEST(RunFolder, ResumesAsIfNothingHadHappened) {
  const TemporaryFolder temporary;
  const RunFolder broken = make(temporary.path() / "broken"), whole = make(temporary.path() / "whole");
  std::atomic<bool> stop = false;
  TrainingRun first = tiny_run();
  const auto stop_at_15 = [&](const StepReport& report) { stop = report.step == 15; };
  EXPECT_EQ(train_in_folder(first, broken, {.report = stop_at_15, .checkpoint = {}, .stop = &stop}),
            TrainingStatus::stopped);
  TrainingRun second = tiny_run(), unbroken = tiny_run();
  second.load(broken.checkpoint_path());
  EXPECT_EQ(second.steps_done(), 15);
  train_in_folder(second, broken);
  train_in_folder(unbroken, whole);
  EXPECT_TRUE(same_weights(second, unbroken));
  const auto resumed_lines = read_metrics(broken.metrics_path()), whole_lines = read_metrics(whole.metrics_path());
  ASSERT_EQ(resumed_lines.size(), whole_lines.size());
  for (std::size_t line = 0; line < whole_lines.size(); ++line) {
    EXPECT_EQ(resumed_lines[line].step, whole_lines[line].step);
    EXPECT_EQ(resumed_lines[line].train_loss, whole_lines[line].train_loss);
    EXPECT_EQ(resumed_lines[line].measured, whole_lines[line].measured);
  }
}

TEST(RunFolder, IsOfOneProcessAtATime) {
  const TemporaryFolder temporary;
  const auto path = temporary.path() / "run";
  {
    const RunFolder folder = make(path);
    TrainingRun run = tiny_run();
    train_in_folder(run, folder);
    EXPECT_THROW(make(path, true), Error);
    EXPECT_THROW(RunFolder::resume(path), Error);
    EXPECT_NO_THROW(tasks::language::load_language_model(RunFolder::open(path)));  // reading takes no lock
  }
  temporary.write("run/.checkpoint.safetensors.123.part", "half of it");
  RunFolder::resume(path);
  EXPECT_FALSE(std::filesystem::exists(path / ".checkpoint.safetensors.123.part"));
}

TEST(RunFolder, GivesNoModelOfAnotherConfiguration) {
  const TemporaryFolder temporary;
  const RunFolder folder = make(temporary.path() / "run");
  tiny_run().save(folder.checkpoint_path());
  EXPECT_NO_THROW(tasks::language::load_language_model(folder));
  RunConfig config = tiny_config();
  config.training.steps = 7;  // does not affect the model
  write_file(folder.config_path(), to_toml(config));
  EXPECT_NO_THROW(tasks::language::load_language_model(folder));
  config.model.as<tasks::language::LanguageModelOptions>().mechanism = "cog";  // the same shapes
  write_file(folder.config_path(), to_toml(config));
  try {
    tasks::language::load_language_model(folder);
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), folder.checkpoint_path().string() + ": model.mechanism: expected \"cog\", got \"softmax\"");
  }
}

TEST(RunFolder, RefusesACurveWithAGap) {
  const TemporaryFolder temporary;
  const RunFolder folder = make(temporary.path() / "run");
  TrainingRun run = tiny_run();
  std::atomic<bool> stop = false;
  train_in_folder(
      run, folder,
      {.report = [&](const StepReport& report) { stop = report.step == 16; }, .checkpoint = {}, .stop = &stop});
  const std::string lines = read_file(folder.metrics_path());
  const auto refusal = [&](const std::string& contents) {
    write_file(folder.metrics_path(), contents);
    TrainingRun resumed = tiny_run();
    resumed.load(folder.checkpoint_path());
    try {
      train_in_folder(resumed, folder);
    } catch (const Error& error) {
      EXPECT_EQ(read_file(folder.metrics_path()), contents);
      return std::string(error.what()).substr(folder.metrics_path().string().size());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(lines.substr(0, lines.size() / 2)),
            ": expected a report of step 10 before the checkpoint of step 16, got none");
  EXPECT_EQ(refusal(lines.substr(lines.find('\n') + 1)),
            ": expected a report of step 5 before the checkpoint of step 16, got a report of step 8");
  EXPECT_EQ(refusal(lines + lines),
            ": expected no further report before the checkpoint of step 16, got a report of step 5");
  EXPECT_EQ(refusal(lines), "accepted");
  std::filesystem::remove(folder.metrics_path());
  TrainingRun gone = tiny_run();
  gone.load(folder.checkpoint_path());
  EXPECT_THROW(train_in_folder(gone, folder), Error);
}

}  // namespace
}  // namespace cogwheel::runs
