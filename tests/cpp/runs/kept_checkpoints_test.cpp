// Which checkpoints a folder has, and what happens where one is damaged.
#include "cogwheel/runs/training/kept_checkpoints.h"

#include <gtest/gtest.h>

#include <set>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/runs/training/run_changes.h"
#include "runs/tiny_run.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::runs::kept_checkpoints_test {
namespace {

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

struct Kept {
  TemporaryFolder temporary;
  TrainingRun run;
  RunFolder folder;
  explicit Kept(TrainingOptions training = tiny_training())
      : run(tiny_model(), training, tiny_task()),
        folder(RunFolder::create(temporary.path() / "run", run.configuration(), {})) {}
};

TEST(KeptCheckpoints, AreTheNewestAndTheBest) {
  TrainingOptions training = tiny_training();
  training.keep_checkpoints = 3, training.keep_best = true;
  Kept kept(training);
  EXPECT_EQ(train_in_folder(kept.run, kept.folder), TrainingStatus::finished);
  EXPECT_EQ(names_in(kept.folder.checkpoints_path()),
            (std::set<std::string>{"16.safetensors", "18.safetensors", "24.safetensors", "best.safetensors"}));
  const auto path = [&](const char* name) { return kept.folder.checkpoints_path() / name; };
  EXPECT_TRUE(std::filesystem::equivalent(path("24.safetensors"), kept.folder.checkpoint_path()));
  // Any of them can be read, and says whose it is.
  EXPECT_EQ(find_checkpoint(path("18.safetensors")).folder.config_path().lexically_normal(),
            kept.folder.config_path().lexically_normal());
  TrainingRun earlier = tiny_run();
  RunConfig config = kept.run.configuration();
  EXPECT_TRUE(TrainingRun(config.model, config.training, tiny_task()).load(path("18.safetensors")).empty());
  // A new run in the folder removes them.
  RunFolder::create(kept.temporary.path() / "other", config, {});
  remove_run_files(kept.folder.path());
  EXPECT_FALSE(std::filesystem::exists(kept.folder.checkpoints_path()));
}

// What is killed between the two links would otherwise go on from a state that has counted a best that nobody kept.
TEST(KeptCheckpoints, TheBestIsKeptBeforeItIsTheNewest) {
  Kept kept;
  train_in_folder(kept.run, kept.folder);
  const auto path = [&](const char* name) { return kept.folder.checkpoints_path() / name; };
  std::filesystem::remove(kept.folder.newest_path());
  std::filesystem::remove(path("best.safetensors"));
  write_file(path("18.safetensors"), "the newest before");
  std::filesystem::create_hard_link(path("18.safetensors"), kept.folder.newest_path());
  std::filesystem::create_directories(path("best.safetensors") / "in the way");
  EXPECT_THROW(keep_checkpoint(kept.run, kept.folder, /*is_best=*/true), std::exception);
  EXPECT_EQ(read_file(kept.folder.newest_path()), "the newest before");
  std::filesystem::remove_all(path("best.safetensors"));
  keep_checkpoint(kept.run, kept.folder, /*is_best=*/true);
  EXPECT_TRUE(std::filesystem::equivalent(path("best.safetensors"), kept.folder.newest_path()));
}

TEST(KeptCheckpoints, OneThatIsDamagedIsNamedAndTheOneBeforeItTaken) {
  Kept kept;
  train_in_folder(kept.run, kept.folder);
  std::string bytes = read_file(kept.folder.checkpoint_path());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(kept.folder.checkpoint_path(), bytes);
  write_file(kept.folder.checkpoints_path() / "24.safetensors", bytes.substr(0, bytes.size() / 3));
  TrainingRun again = tiny_run();
  const auto told = load_newest(again, kept.folder);
  EXPECT_EQ(again.steps_done(), 18);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_NE(told[0].find("checkpoint.safetensors: expected the contents that were written"), std::string::npos);
  EXPECT_NE(told[1].find("24.safetensors: expected a whole safetensors file"), std::string::npos);
  EXPECT_NE(told[2].find("18.safetensors, step 18"), std::string::npos);
  EXPECT_EQ(train_in_folder(again, kept.folder), TrainingStatus::finished);
  EXPECT_TRUE(same_weights(again, kept.run));

  for (const std::string& name : names_in(kept.folder.checkpoints_path()))
    write_file(kept.folder.checkpoints_path() / name, "no checkpoint");
  write_file(kept.folder.checkpoint_path(), "no checkpoint");
  EXPECT_THROW(load_newest(again, kept.folder), DamagedFile);
}

TEST(KeptCheckpoints, AnotherTokenizerIsRefusedBeforeAnythingIsLoaded) {
  Kept kept;
  kept.folder.write(kept.run.task().assets());
  train_in_folder(kept.run, kept.folder);
  write_file(kept.folder.tokenizer_path(), "another");
  TrainingRun again = tiny_run(), fresh = tiny_run();
  EXPECT_NE(error_of([&] { load_newest(again, kept.folder); }).find("tokenizer.json: expected the tokenizer of"),
            std::string::npos);
  EXPECT_EQ(again.steps_done(), 0);
  EXPECT_TRUE(same_weights(again, fresh));
}

// Values are looked at before anything is recorded.
TEST(RunChanges, AreOfTrainingAlone) {
  Kept kept;
  const RunConfig before = kept.run.configuration();
  const auto change = [&](const std::vector<std::string>& assignments) {
    RunConfig after = before;
    set_options(after, assignments);
    return change_between(before, after, 6, "resume: --set");
  };
  const RunChange longer = change({"training.steps=48", "training.batch=8"});
  ASSERT_EQ(longer.keys.size(), 2u);
  EXPECT_EQ(longer.keys[0].key, "training.steps");
  EXPECT_EQ(longer.keys[0].before, "24");
  EXPECT_EQ(longer.keys[0].after, "48");
  EXPECT_EQ(usage_error_of([&] { change({"model.width=64"}); }),
            "resume: --set model.width: expected 32, as the run began, got 64");
  EXPECT_EQ(usage_error_of([&] { change({"training.seed=6"}); }),
            "resume: --set training.seed: expected 5, as the run began, got 6");
  EXPECT_EQ(usage_error_of([&] { change({"training.ema=0.9"}); }),
            "resume: --set training.ema: expected 0, as the run began, got 0.9");
}

TEST(RunChanges, DecideWhichReportsThereAre) {
  Kept kept;
  const auto path = kept.folder.changes_path();
  EXPECT_TRUE(read_changes(path).empty());
  RunConfig config = kept.run.configuration();
  const auto changed = [&](std::int64_t step, const std::vector<std::string>& assignments) {
    RunConfig after = config;
    set_options(after, assignments);
    add_change(path, change_between(config, after, step, "set"));
    config = after;
  };
  changed(12, {"training.report_every=10", "training.prompts=[\"a = b\"]"});
  changed(24, {"training.steps=36", "training.report_every=7"});
  const auto changes = read_changes(path);
  EXPECT_EQ(changed_keys(changes),
            (std::set<std::string>{"training.report_every", "training.prompts", "training.steps"}));
  EXPECT_EQ(reported_steps(config, changes, 36), (std::vector<std::int64_t>{5, 8, 10, 16, 20, 24, 28, 32, 35, 36}));
  EXPECT_EQ(reported_steps(config, changes, 11), (std::vector<std::int64_t>{5, 8, 10}));
  // A run that was killed between the record and the configuration.
  // A run that went back to a step before a change has its new values from there on.
  EXPECT_EQ(changes_until(path, 18)[1].step, 18);
  EXPECT_EQ(read_changes(path)[1].step, 18);
  EXPECT_EQ(reported_steps(config, read_changes(path), 36),
            (std::vector<std::int64_t>{5, 8, 10, 16, 21, 24, 28, 32, 35, 36}));
  EXPECT_FALSE(change_between(with_changes(kept.run.configuration(), changes, path), config, 0, "set").keys.size());
}

TEST(RunChanges, NamesTheLineAndTheKeyThatIsNone) {
  Kept kept;
  const auto path = kept.folder.changes_path();
  const std::string first = "{\"step\": 3, \"changes\": {\"training.batch\": [4, 8]}}\n",
                    line = path.string() + ", line 2";
  const auto refused = [&](const std::string& second) {
    write_file(path, first + second + "\n");
    return error_of([&] { with_changes(kept.run.configuration(), read_changes(path), path); });
  };
  EXPECT_EQ(refused("{}"), line + ": expected a change, got {}");
  EXPECT_EQ(refused("{\"step\": 3, \"changes\": {}, \"when\": 1}"), line + ": key: expected step or changes, got when");
  EXPECT_EQ(refused("{\"step\": 3, \"changes\": {\"training.bach\": [4, 8]}}").substr(0, line.size() + 30),
            line + ": key: expected training.batch");
  EXPECT_EQ(refused("{\"step\": 3, \"changes\": {\"model.width\": [4, 8]}}").substr(0, line.size() + 15),
            line + ": key: expected");
  EXPECT_EQ(refused("{\"step\": 3, \"changes\": {\"training.batch\": [4, \"all\"]}}"),
            path.string() + ": training.batch: expected a whole number, got \"all\"");
}

TEST(RunChanges, AnotherBatchGoesOnAfterTheRowsThatWereSeen) {
  Kept kept;
  for (int step = 0; step < 6; ++step) kept.run.step();
  kept.run.save(kept.folder.checkpoint_path());
  TrainingOptions larger = tiny_training();
  larger.batch = 8;
  TrainingRun run(tiny_model(), larger, tiny_task());
  EXPECT_THROW(run.load(kept.folder.checkpoint_path()), Error);
  EXPECT_TRUE(run.load(kept.folder.checkpoint_path(), {"training.batch"}).empty());
  EXPECT_EQ(run.next_rows(), (std::pair<std::int64_t, std::int64_t>{24, 8}));
  run.step();
  EXPECT_EQ(run.tokens(), 6 * 4 * 16 + 8 * 16);
}

}  // namespace
}  // namespace cogwheel::runs::kept_checkpoints_test
