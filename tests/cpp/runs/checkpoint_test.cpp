#include "cogwheel/runs/weights.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/tasks/language/language_model.h"
#include "runs/tiny_run.h"
#include "support/temporary_folder.h"

namespace cogwheel::runs {
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
  refused(replaced("[4]", "[4.0]"));
  refused(replaced("[4]", "[-4]"));
  refused(replaced("[0,16]", "[-16,0]"));
}

TEST(SafeTensors, RefusesTensorsThatOverlapOrLeaveGaps) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& offsets_of_y) {
    const std::string header = R"({"x":{"data_offsets":[0,8],"dtype":"F32","shape":[2]},)"
                               R"("y":{"data_offsets":)" +
                               offsets_of_y + R"(,"dtype":"F32","shape":[2]}})";
    std::string contents(8, '\0');
    contents[0] = static_cast<char>(header.size());
    try {
      load_safetensors(folder.write("file", contents + header + std::string(16, '\0')));
    } catch (const Error& error) {
      const std::string message = error.what();
      return message.substr(message.find(", got ") + 6);
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("[8,16]"), "accepted");
  EXPECT_EQ(refusal("[4,12]"), "\"y\" at byte 4 of the numbers instead of 8");
  EXPECT_EQ(refusal("[0,8]"), "\"y\" at byte 0 of the numbers instead of 8");
  EXPECT_EQ(refusal("[9,17]"), "an impossible offsets [9,17] in \"y\"");
}

TEST(SafeTensors, RefusesDimensionsBesideZeroWhoseProductOverflows) {
  const TemporaryFolder folder;
  const std::string huge = std::to_string(std::int64_t{1} << 62);
  const std::string header = R"({"x":{"data_offsets":[0,0],"dtype":"F32","shape":[0,)" + huge + "," + huge + "]}}";
  std::string contents(8, '\0');
  contents[0] = static_cast<char>(header.size());
  EXPECT_THROW(load_safetensors(folder.write("file", contents + header)), DamagedFile);
}

TEST(Checkpoint, ContinuesBitForBit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  tasks::language::LanguageModelOptions dropped = tiny_llama("cog");
  dropped.dropout = 0.2;
  TrainingOptions half = tiny_training();
  half.precision = "bf16";
  TrainingOptions averaged = tiny_training();
  averaged.ema = 0.8;
  TrainingOptions sliced = averaged;
  sliced.optimizer = "muon", sliced.micro_batches = 2, sliced.recompute = 1, sliced.spike_deviations = 50;
  tasks::language::LanguageModelOptions hybrid = tiny_llama("mamba2+softmax");
  hybrid.position = "none";
  const std::vector<std::pair<tasks::language::LanguageModelOptions, TrainingOptions>> cases = {
      {tiny_model("cog"), tiny_training()},
      {tiny_model("differential"), tiny_training()},
      {dropped, half},
      {tiny_model("cog"), averaged},
      {hybrid, half},
      {dropped, sliced}};
  for (const auto& [model, training] : cases) {
    TrainingRun unbroken(model, training, tiny_task()), first(model, training, tiny_task()),
        resumed(model, training, tiny_task());
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
    first.step();  // between two reports, so that the unfinished mean is saved too
    first.save(path);
    EXPECT_TRUE(resumed.load(path).empty());
    EXPECT_EQ(resumed.steps_done(), 11);
    EXPECT_EQ(resumed.last_train_loss(), first.last_train_loss());
    resumed.train({.report = collect(resumed_losses), .checkpoint = {}});
    EXPECT_TRUE(same_weights(unbroken, resumed)) << model.mechanism;
    EXPECT_EQ(unbroken_losses, resumed_losses) << model.mechanism;
    EXPECT_EQ(held_out_loss(unbroken.last_measured()), held_out_loss(resumed.last_measured()));
    EXPECT_EQ(unbroken.best().value(), resumed.best().value());
  }
}

// Each mechanism with a state beside attention, as a plain layer and as its paper has it.
TEST(Checkpoint, ContinuesEveryRecurrentLayerBitForBit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  const auto task = tiny_task();
  const auto steps = [](TrainingRun& run, int count) {
    double loss = 0;
    for (int step = 0; step < count; ++step) loss = run.step();
    return loss;
  };
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.recurrent() == nullptr) continue;
    for (const std::string layer : {"plain", "paper"}) {
      tasks::language::LanguageModelOptions model = tiny_model(std::string(mechanism.description.name) + "+softmax");
      model.recurrent_layer = layer;
      model.position = "none";
      TrainingRun unbroken(model, tiny_training(), task), first(model, tiny_training(), task),
          resumed(model, tiny_training(), task);
      const double loss = steps(unbroken, 4);
      steps(first, 2);
      first.save(path);
      EXPECT_TRUE(resumed.load(path).empty());
      EXPECT_EQ(steps(resumed, 2), loss) << model.mechanism << " " << layer;
      EXPECT_TRUE(same_weights(unbroken, resumed)) << model.mechanism << " " << layer;
      EXPECT_FALSE(same_weights(first, resumed));
    }
  }
}

TEST(Checkpoint, LeavesTheRunAloneWhereItIsRefused) {
  const TemporaryFolder folder;
  TrainingRun other = tiny_run("cog"), run = tiny_run(), same = tiny_run();
  other.step();
  other.save(folder.path() / "other");
  EXPECT_THROW(same.load(folder.path() / "other"), Error);
  tasks::language::LanguageModelOptions halves = tiny_llama();
  TrainingRun interleaved(halves, tiny_training(), tiny_task());
  halves.position = "rotary_halves";
  TrainingRun by_halves(halves, tiny_training(), tiny_task());
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

std::string refusal(TrainingRun& run, const std::filesystem::path& path) {
  try {
    run.load(path);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return std::string(error.what()).substr(path.string().size());
  }
}

TEST(Checkpoint, SaysWhichConfigurationItIsOf) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  tiny_run().save(path);
  TrainingOptions longer = tiny_training();
  longer.steps = 500;
  TrainingRun other(tiny_model(), longer, tiny_task());
  EXPECT_EQ(refusal(other, path), ": training.steps: expected 500, got 24");
  tasks::language::LanguageModelOptions wide = tiny_model();
  wide.width = 64;
  TrainingRun wider(wide, tiny_training(), tiny_task());
  EXPECT_EQ(refusal(wider, path), ": model.width: expected 64, got 32");
  auto data = std::make_shared<text::Dataset>(*tiny_data());
  data->sha256 = "of another text";
  TrainingRun elsewhere(tiny_model(), tiny_training(), tasks::language::make_language_modelling(data));
  EXPECT_EQ(refusal(elsewhere, path),
            ": data.sha256: expected \"of another text\", got \"" + tiny_data()->sha256 + "\"");
}

TEST(Checkpoint, NoticesEveryBitThatChanged) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  TrainingRun run = tiny_run();
  run.save(path);
  const std::string whole = read_file(path);
  EXPECT_EQ(refusal(run, path), "accepted");
  for (std::size_t place = 8; place < whole.size(); place += whole.size() / 23) {
    std::string flipped = whole;
    flipped[place] = static_cast<char>(flipped[place] ^ 1);
    EXPECT_NE(refusal(run, folder.write("checkpoint", flipped)), "accepted") << place;
    EXPECT_THROW(expect_whole(SafeTensorsFile(path)), DamagedFile) << place;
  }
}

// The hash cannot tell invalid numbers that were written that way.
TEST(Checkpoint, RefusesNumbersThatNoRunSaves) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  TrainingRun run = tiny_run();
  run.save(path);
  const SafeTensors whole = load_safetensors(path);
  const auto with = [&](const char* key, const nlohmann::json& value) {
    SafeTensors changed = whole;
    auto state = nlohmann::json::parse(whole.metadata.at("state"));
    state[key] = value;
    changed.metadata["state"] = state.dump();
    changed.metadata["sha256"] = sha256(changed);
    save_safetensors(changed, path);
    return refusal(run, path);
  };
  EXPECT_EQ(with("step", 3), "accepted");
  // A loss of a density may be below 0, and so may the sum since the last report.
  EXPECT_EQ(with("loss_sum", -3.5), "accepted");
  EXPECT_EQ(with("loss_sum", "low"), ": expected a checkpoint of a training run, got a file without its state");
  EXPECT_EQ(with("step", -5), ": step: expected 0 to 24, got -5");
  EXPECT_EQ(with("step", 25), ": step: expected 0 to 24, got 25");
  EXPECT_EQ(with("step", 1e300), ": step: expected a whole number, got 1e+300");
  EXPECT_EQ(with("seconds", -1), ": seconds: expected 0 to 1.7976931348623157e+308, got -1");
  EXPECT_EQ(with("machine", 3), ": expected a checkpoint of a training run, got a file without its state");

  SafeTensors changed = whole;
  const auto save_again = [&] {
    changed.metadata["sha256"] = sha256(changed);
    save_safetensors(changed, path);
  };
  changed.tensors["model.final_norm.weight"] = at::full({32}, std::numeric_limits<float>::quiet_NaN());
  save_again();
  EXPECT_EQ(refusal(run, path), ": expected finite numbers, got NaN or infinity in model.final_norm.weight");
  changed.tensors["model.final_norm.weight"] = at::ones({32}, at::kDouble);
  save_again();
  EXPECT_EQ(refusal(run, path), ": expected model.final_norm.weight of type Float, got Double");
  changed.tensors["model.final_norm.weight"] = at::ones({32});
  changed.tensors["model.other"] = at::ones({32});
  save_again();
  EXPECT_EQ(refusal(run, path), ": expected the tensors of its configuration, got another, model.other");
}

TEST(Checkpoint, RefusesAnotherFormat) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  TrainingRun run = tiny_run();
  run.save(path);
  const SafeTensors whole = load_safetensors(path);
  const auto with = [&](const char* key, const char* value) {
    SafeTensors changed = whole;
    changed.metadata.erase(key);
    if (value != nullptr) changed.metadata[key] = value;
    if (key != std::string("sha256")) changed.metadata["sha256"] = sha256(changed);
    save_safetensors(changed, path);
    return refusal(run, path);
  };
  EXPECT_EQ(with("format", checkpoint_format), "accepted");
  EXPECT_EQ(with("format", nullptr), ": format: expected cogwheel checkpoint 1, got none");
  EXPECT_EQ(with("format", "cogwheel checkpoint 2"),
            ": format: expected cogwheel checkpoint 1, got cogwheel checkpoint 2");
  EXPECT_EQ(with("sha256", nullptr),
            ": expected the contents that were written (SHA-256 none), got others: the file is damaged");
  EXPECT_EQ(with("configuration", nullptr), ": configuration: expected an object of keys and values, got nothing");
  EXPECT_EQ(with("configuration", "[]"), ": configuration: expected an object of keys and values, got []");
  EXPECT_EQ(with("state", "{}"), ": expected a checkpoint of a training run, got a file without its state");
}

// Every number that a report needs is in the checkpoint: reports go on with the tokens since the one before.
TEST(Checkpoint, ReportsGoOn) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  TrainingRun run = tiny_run(), resumed = tiny_run();
  std::atomic<bool> stop = false;
  run.train({.report = [&](const StepReport& report) { stop = report.step == 16; }, .checkpoint = {}, .stop = &stop});
  run.save(path);
  ASSERT_EQ(refusal(resumed, path), "accepted");
  EXPECT_EQ(resumed.tokens(), run.tokens());
  EXPECT_EQ(resumed.last_measured(), run.last_measured());
  EXPECT_EQ(resumed.best(), run.best());
  std::vector<StepReport> reports;
  resumed.train({.report = [&](const StepReport& report) { reports.push_back(report); }, .checkpoint = {}});
  EXPECT_EQ(reports.front().tokens, 20 * 4 * 16);
  EXPECT_GT(reports.front().tokens_per_second, 0);
  EXPECT_EQ(resumed.tokens(), 24 * 4 * 16);
}

TEST(Checkpoint, IsNotReplacedByWeightsThatAreLost) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  TrainingRun run = tiny_run();
  run.save(path);
  const std::string good = read_file(path);
  const torch::NoGradGuard no_grad;
  run.model()->named_parameters()["final_norm.weight"].fill_(std::numeric_limits<float>::infinity());
  EXPECT_THROW(run.save(path), NonFiniteLoss);
  EXPECT_EQ(read_file(path), good);
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
}  // namespace cogwheel::runs
