#include "cogwheel/runs/training/training_run.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/inspection.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/runs/training/step_times.h"
#include "cogwheel/runs/weights.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/windows.h"
#include "runs/decorated_task.h"
#include "runs/tiny_run.h"
#include "support/temporary_folder.h"

namespace cogwheel::runs {
namespace {

std::vector<StepReport> reports_of(TrainingRun& run) {
  std::vector<StepReport> reports;
  const auto collect = [&](const StepReport& report) { reports.push_back(report); };
  EXPECT_EQ(run.train({.report = collect, .checkpoint = {}}), TrainingStatus::finished);
  return reports;
}

TEST(TrainingRun, LearnsWithEveryMechanism) {
  auto names = mechanism_names();
  for (const char* name : {"differential_cog", "symmetric_cog", "differential_symmetric_cog", "centered_cog"})
    names.emplace_back(name);
  TrainingOptions training = tiny_training();
  training.steps = 32;  // enough for the slowest, whatever the roundings
  for (const auto& mechanism : names) {
    TrainingRun run(tiny_model(mechanism), training, tiny_task());
    const double before = held_out_loss(run.measure());
    EXPECT_NEAR(before, std::log(*common(run.model_options()).vocabulary), 0.1) << mechanism;
    run.train();
    EXPECT_LT(held_out_loss(run.last_measured()), 0.85 * before) << mechanism;
  }
}

// Where the paper has more than projections and gates, LearnsWithEveryMechanism has it too.
TEST(TrainingRun, LearnsWithPlainRecurrentLayersAndHybrids) {
  std::vector<std::string> names{"gla+softmax"};
  for (const Mechanism& mechanism : mechanisms())
    if (mechanism.recurrent() != nullptr) names.emplace_back(mechanism.description.name);
  for (const std::string& name : names) {
    tasks::language::LanguageModelOptions model = tiny_model(name);
    model.recurrent_layer = "plain";
    model.position = "none";
    TrainingRun run(model, tiny_training(), tiny_task());
    const double before = held_out_loss(run.measure());
    run.train();
    EXPECT_LT(held_out_loss(run.last_measured()), 0.85 * before) << name;
  }
}

TEST(TrainingRun, LearnsInTheLlamaForm) {
  for (const std::string mechanism : {"softmax", "cog", "consmax", "relu", "differential", "symmetric"})
    for (const std::string position : {"rotary", "rotary_halves"}) {
      tasks::language::LanguageModelOptions model = tiny_llama(mechanism);
      model.position = position;
      if (mechanism != "symmetric") model.key_value_heads = 2;
      TrainingRun run(model, tiny_training(), tiny_task());
      const double before = held_out_loss(run.measure());
      run.train();
      EXPECT_LT(held_out_loss(run.last_measured()), 0.85 * before) << mechanism << " " << position;
    }
}

TEST(TrainingRun, LearnsInBFloat16AsInFloat) {
  for (const tasks::language::LanguageModelOptions& model : {tiny_model("cog"), tiny_llama("cog")}) {
    TrainingOptions options = tiny_training();
    TrainingRun single(model, options, tiny_task());
    options.precision = "bf16";
    TrainingRun half(model, options, tiny_task()), same(model, options, tiny_task());
    single.train();
    half.train();
    same.train();
    EXPECT_NE(held_out_loss(half.last_measured()), held_out_loss(single.last_measured()));
    EXPECT_NEAR(held_out_loss(half.last_measured()), held_out_loss(single.last_measured()),
                0.02 * held_out_loss(single.last_measured()));
    EXPECT_TRUE(same_weights(half, same));
    for (const auto& parameter : half.model()->named_parameters())
      EXPECT_EQ(parameter.value().scalar_type(), at::kFloat) << parameter.key();
  }
}

TEST(TrainingRun, EvaluatesInFloatWithoutDropout) {
  tasks::language::LanguageModelOptions model = tiny_model();
  TrainingRun plain(model, tiny_training(), tiny_task());
  model.dropout = 0.5;
  TrainingOptions options = tiny_training();
  options.precision = "bf16";
  TrainingRun dropped(model, options, tiny_task());
  EXPECT_TRUE(same_weights(plain, dropped));
  EXPECT_EQ(held_out_loss(plain.measure()), held_out_loss(dropped.measure()));
  EXPECT_NE(plain.step(), dropped.step());
}

TEST(TrainingRun, DropsOtherElementsAtEachStepAndTheSameForASeed) {
  tasks::language::LanguageModelOptions model = tiny_model();
  model.dropout = 0.4;
  TrainingOptions options = tiny_training();
  options.learning_rate = options.final_learning_rate = 1e-30;  // the weights do not change
  options.batch = 4;
  TrainingRun first(model, options, tiny_task()), second(model, options, tiny_task());
  options.seed = 6;
  TrainingRun other(model, options, tiny_task());
  const double loss = first.step();
  EXPECT_EQ(second.step(), loss);
  EXPECT_NE(other.step(), loss);
  const auto windows = [&](std::int64_t step) {
    return tasks::language::training_windows(*tiny_data(), 16, 4, 5, step);
  };
  const tasks::language::Windows one = windows(0);
  const auto dropped_loss = [&](std::uint64_t seed) {
    return language_model(first)
        ->loss(one.inputs, one.targets, {.dropout = language_model(first)->dropout(seed)})
        .item<double>();
  };
  EXPECT_EQ(dropped_loss(1), dropped_loss(1));
  EXPECT_NE(dropped_loss(1), dropped_loss(2));
}

TEST(TrainingRun, RepeatsItselfBitForBit) {
  TrainingRun first = tiny_run("differential"), second = tiny_run("differential");
  const auto first_reports = reports_of(first), second_reports = reports_of(second);
  EXPECT_TRUE(same_weights(first, second));
  EXPECT_EQ(held_out_loss(first.last_measured()), held_out_loss(second.last_measured()));
  ASSERT_EQ(first_reports.size(), second_reports.size());
  for (std::size_t index = 0; index < first_reports.size(); ++index)
    EXPECT_EQ(first_reports[index].train_loss, second_reports[index].train_loss);
}

TEST(TrainingRun, ReportsWhenDue) {
  TrainingRun run = tiny_run();
  const auto reports = reports_of(run);
  std::vector<std::int64_t> steps, evaluated;
  for (const auto& report : reports) {
    steps.push_back(report.step);
    if (!report.measured.empty()) evaluated.push_back(report.step);
    EXPECT_EQ(report.steps, 24);
    EXPECT_EQ(report.tokens, report.step * 4 * 16);
    EXPECT_GT(report.tokens_per_second, 0);
    EXPECT_EQ(report.learning_rate, learning_rate(tiny_training(), report.step - 1));
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{5, 8, 10, 15, 16, 20, 24}));
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{8, 16, 24}));
  EXPECT_LE(run.best().value(), held_out_loss(run.last_measured()));
}

TEST(TrainingRun, CurvesMayHaveFewerWindowsAndChangeNothingElse) {
  TrainingOptions options = tiny_training();
  options.curve_tokens = 64;
  TrainingRun run(tiny_model(), options, tiny_task()), whole = tiny_run();
  const auto reports = reports_of(run), whole_reports = reports_of(whole);
  EXPECT_TRUE(same_weights(run, whole));
  EXPECT_EQ(held_out_loss(run.last_measured()), held_out_loss(whole.last_measured()));
  EXPECT_EQ(held_out_loss(run.last_measured()), held_out_loss(run.measure()));
  EXPECT_EQ(held_out_loss(reports.back().final_measured), held_out_loss(run.last_measured()));
  EXPECT_TRUE(whole_reports.back().final_measured.empty());
  EXPECT_EQ(held_out_loss(whole_reports.back().measured), held_out_loss(whole.last_measured()));
  // The four windows of the curve, by hand.
  const tasks::language::Windows windows = tasks::language::held_out_windows(*tiny_data(), 16, 64);
  ASSERT_EQ(windows.inputs.size(0), 4);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(held_out_loss(reports.back().measured),
            language_model(run)->loss(windows.inputs, windows.targets).item<double>());
  nn::Hooks hooks;
  const nn::HeadObserver observer(hooks);
  language_model(run)->forward(windows.inputs, {.hooks = &hooks});
  EXPECT_EQ(reports.back().heads, observer.statistics());
  EXPECT_GT(run.evaluation_seconds(), 0);
}

TEST(TrainingRun, ReportsTheMeanSinceTheReportBefore) {
  TrainingRun run = tiny_run(), by_hand = tiny_run();
  const StepReport first = reports_of(run).front();
  double sum = 0;
  for (int step = 0; step < 5; ++step) sum += by_hand.step();
  EXPECT_DOUBLE_EQ(first.train_loss, sum / 5);
}

TEST(TrainingRun, StopsWhenAskedAndSaves) {
  TrainingRun run = tiny_run();
  std::atomic<bool> stop = false;
  int checkpoints = 0;
  const auto status = run.train({.report = [&](const StepReport& report) { stop = report.step >= 8; },
                                 .checkpoint = [&] { ++checkpoints; },
                                 .stop = &stop});
  EXPECT_EQ(status, TrainingStatus::stopped);
  EXPECT_EQ(run.steps_done(), 8);
  EXPECT_EQ(checkpoints, 2);  // at step 6, and when stopped
  EXPECT_EQ(run.train(), TrainingStatus::finished);
  TrainingRun unbroken = tiny_run();
  unbroken.train();
  EXPECT_TRUE(same_weights(run, unbroken));
}

std::map<std::string, at::Tensor> gradients_of_first_step(TrainingOptions training, const std::string& mechanism) {
  training.learning_rate = 1e-30, training.clip = 0;
  TrainingRun run(tiny_model(mechanism), training, tiny_task());
  run.step();
  std::map<std::string, at::Tensor> gradients;
  for (const auto& parameter : run.model()->named_parameters())
    gradients[parameter.key()] = parameter.value().grad().clone();
  return gradients;
}

// Slices change the order of sums and nothing else; blocks that are made again not even that.
TEST(TrainingRun, SlicesOfAStepAddUpToIt) {
  for (const char* mechanism : {"softmax", "cog"}) {
    TrainingOptions training = tiny_training();
    const auto whole = gradients_of_first_step(training, mechanism);
    training.recompute = 1;
    for (const auto& [name, gradient] : gradients_of_first_step(training, mechanism))
      EXPECT_TRUE(gradient.equal(whole.at(name))) << name;
    for (const std::int64_t slices : {2, 4}) {
      training.micro_batches = slices;
      training.recompute = 0;
      const auto kept = gradients_of_first_step(training, mechanism);
      training.recompute = 2;
      for (const auto& [name, gradient] : gradients_of_first_step(training, mechanism)) {
        EXPECT_TRUE(gradient.equal(kept.at(name))) << name;
        const double error = (gradient - whole.at(name)).norm().item<double>();
        EXPECT_LE(error, 1e-5 * whole.at(name).norm().item<double>()) << name << " of " << slices;
      }
    }
  }
}

// A mean over unequal counts: the sum over all, whichever slice has how many.
TEST(TrainingRun, SlicesWithUnequalCountsAddUpToo) {
  RunConfig config;
  config.task = {"copying", {}};
  config.model = model_of_task("copying");
  auto& model = config.model.as<tasks::language::LanguageModelOptions>();
  model.context = 32, model.layers = 1, model.heads = 2, model.width = 16;
  const auto task = make_task(config);
  const auto gradient = [&](std::int64_t slices) {
    TrainingOptions training = tiny_training();
    training.batch = 6, training.micro_batches = slices, training.learning_rate = 1e-30, training.clip = 0;
    TrainingRun run(config.model, training, task);
    const double loss = run.step();
    return std::pair(loss, run.model()->named_parameters()["token_embedding"].grad().clone());
  };
  const auto [loss, whole] = gradient(1);
  const auto [sliced_loss, sliced] = gradient(4);  // of 1, 2, 1 and 2 rows
  EXPECT_NEAR(sliced_loss, loss, 1e-5);
  EXPECT_LE((sliced - whole).norm().item<double>(), 1e-5 * whole.norm().item<double>());
}

TEST(TrainingRun, StopsBetweenSlicesAsIfTheStepHadNotBegun) {
  TrainingOptions training = tiny_training();
  training.micro_batches = 4;
  std::atomic<bool> stop = false;
  // Asks to stop in the middle of the third step.
  class StoppingTask final : public DecoratedTask {
   public:
    StoppingTask(std::shared_ptr<const Task> task, std::atomic<bool>* stop)
        : DecoratedTask(std::move(task)), stop_(stop) {}
    at::Tensor loss(torch::nn::Module& model, const Batch& batch, std::uint64_t dropout_seed) const override {
      if (++losses_ == 4 * 2 + 2) stop_->store(true);
      return DecoratedTask::loss(model, batch, dropout_seed);
    }
    std::int64_t losses() const { return losses_; }

   private:
    std::atomic<bool>* stop_;
    mutable std::int64_t losses_ = 0;
  };
  const auto task = std::make_shared<StoppingTask>(tiny_task(), &stop);
  TrainingRun run(tiny_model(), training, task), unbroken(tiny_model(), training, tiny_task());
  bool saved = false;
  EXPECT_EQ(run.train({.checkpoint = [&] { saved = true; }, .stop = &stop}), TrainingStatus::stopped);
  EXPECT_EQ(run.steps_done(), 2);
  EXPECT_EQ(task->losses(), 4 * 2 + 2);  // no further slice
  EXPECT_TRUE(saved);
  stop = false;
  EXPECT_EQ(run.train(), TrainingStatus::finished);
  unbroken.train();
  EXPECT_TRUE(same_weights(run, unbroken));
}

TEST(TrainingRun, LearnsWithMuon) {
  TrainingOptions training = tiny_training();
  training.optimizer = "muon";
  TrainingRun run(tiny_model("cog"), training, tiny_task());
  const double before = held_out_loss(run.measure());
  run.train();
  EXPECT_LT(held_out_loss(run.last_measured()), 0.85 * before);
}

TEST(TrainingRun, SaysWhatItsModelHasNoUseFor) {
  RunConfig config;
  config.task = {"copying", {}};
  config.model = model_of_task("copying");
  const auto refused = [&](const std::vector<std::string>& assignments, const std::string& message) {
    RunConfig changed = config;
    set_options(changed, assignments);
    EXPECT_EQ(usage_error_of([&] { make_task(changed); }), message);
  };
  const std::string none = "expected none for the task copying, got ";
  refused({"training.sample_every=2", "training.prompts=[\"a\"]"}, "training.sample_every: " + none + "2");
  refused({"training.prompts=[\"a\"]"}, "training.prompts: " + none + "a");
  refused({"data.packing=documents"}, "data.packing: " + none + "documents");
  refused({"data.held_out_tokens=0"}, "data.held_out_tokens: " + none + "0");
  refused({"data.weights=[0.5]"}, "data.weights: " + none + "0.5");
  make_task(config);
  config = {};
  const std::string without = "expected none without data.corpus, got ";
  refused({"data.packing=documents"}, "data.packing: " + without + "documents");
  refused({"data.weights=[0.5]"}, "data.weights: expected none without several of data.corpus, got 0.5");
  refused({"data.vocabulary=300"},
          "data.vocabulary: expected none without a text whose data.tokenizer is bpe, got 300");
  config.task.name = "images";
  config.model = model_of_task("images");
  refused({"data.vocabulary=300"},
          "data.vocabulary: expected none for the task images, which learns from task.images, got 300");
}

TEST(TrainingRun, ContinuesPromptsWhenDue) {
  TrainingOptions training = tiny_training();
  training.steps = 6, training.sample_every = 3, training.prompts = {"line 1", "of"};
  TrainingRun run(tiny_model(), training, tiny_task()), silent = tiny_run();
  std::vector<ContinuedText> texts;
  run.train({.sample = [&](const ContinuedText& text) { texts.push_back(text); }});
  ASSERT_EQ(texts.size(), 4u);
  EXPECT_EQ(texts[1].step, 3);
  EXPECT_EQ(texts[1].prompt, "of");
  EXPECT_FALSE(texts[1].text.empty());
}

// Losses as a task has them, but for steps that are told to jump.
class JumpingTask final : public DecoratedTask {
 public:
  JumpingTask(std::shared_ptr<const Task> task, std::set<std::int64_t> jumps)
      : DecoratedTask(std::move(task)), jumps_(std::move(jumps)) {}
  Batch batch(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place) const override {
    drawn_ = place.batches;
    return DecoratedTask::batch(model, training, place);
  }
  at::Tensor loss(torch::nn::Module& model, const Batch& batch, std::uint64_t dropout_seed) const override {
    const at::Tensor loss = DecoratedTask::loss(model, batch, dropout_seed);
    return jumps_.contains(drawn_) ? loss * 100 : loss;
  }

 private:
  std::set<std::int64_t> jumps_;
  mutable std::int64_t drawn_ = 0;
};

TrainingOptions watched_training() {
  TrainingOptions training = tiny_training();
  training.steps = 60, training.spike_deviations = 12, training.checkpoint_every = 10;
  return training;
}

TEST(TrainingRun, GoesBackFromASpikeAndLeavesTheBatchOut) {
  const TemporaryFolder temporary;
  RunConfig config;
  config.model = tiny_model(), config.training = watched_training();
  const auto task = std::make_shared<JumpingTask>(tiny_task(), std::set<std::int64_t>{45});
  TrainingRun run(config.model, config.training, task), plain(config.model, config.training, tiny_task());
  const RunFolder folder = RunFolder::create(temporary.path() / "run", run.configuration(), {});
  std::vector<std::int64_t> returns;
  std::vector<std::string> told;
  EXPECT_EQ(train_in_folder(run, folder,
                            {.returned = [&](std::int64_t step) { returns.push_back(step); },
                             .warn = [&](const std::string& line) { told.push_back(line); }}),
            TrainingStatus::finished);
  EXPECT_EQ(returns, std::vector<std::int64_t>{40});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].substr(0, 22), "spike at step 46: loss");
  EXPECT_EQ(run.next_rows().first, 61 * 4);  // after 60 steps
  // The same steps as those of a run that never had that batch.
  plain.leave_out({{45 * 4, 4}});
  plain.train();
  EXPECT_TRUE(same_weights(run, plain));
  // Lines after the checkpoint were replaced, not repeated.
  std::vector<std::int64_t> steps;
  for (const StepReport& report : read_metrics(folder.metrics_path())) steps.push_back(report.step);
  EXPECT_EQ(steps, reported_steps(config.training, 60));
  // It is recorded, so that a run which resumes from an older checkpoint leaves it out too.
  EXPECT_NE(read_file(folder.spikes_path()).find("\"rows\":[180,4]"), std::string::npos);
}

TEST(TrainingRun, EndsAtSpikesWithoutEnd) {
  const TemporaryFolder temporary;
  std::set<std::int64_t> jumps;
  for (std::int64_t batch = 45; batch < 100; ++batch) jumps.insert(batch);
  TrainingOptions training = watched_training();
  training.spike_returns = 2;
  TrainingRun run(tiny_model(), training, std::make_shared<JumpingTask>(tiny_task(), jumps));
  const RunFolder folder = RunFolder::create(temporary.path() / "run", run.configuration(), {});
  EXPECT_EQ(train_in_folder(run, folder), TrainingStatus::spike);
  EXPECT_EQ(run.steps_done(), 45);
  EXPECT_EQ(run.next_rows().first, 47 * 4);
  // The second time it went back to the checkpoint before.
  EXPECT_NE(read_file(folder.spikes_path()).find("\"returned_to\":40"), std::string::npos);
  EXPECT_NE(read_file(folder.spikes_path()).find("\"returned_to\":30"), std::string::npos);
}

TEST(TrainingRun, StopsAtALossThatIsNotFinite) {
  TrainingRun run = tiny_run(), same = tiny_run();
  run.step();
  same.step();
  const auto spoil = [](TrainingRun& target, float value) {
    const torch::NoGradGuard no_grad;
    target.model()->named_parameters()["final_norm.weight"].fill_(value);
  };
  spoil(run, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(run.step(), NonFiniteLoss);
  EXPECT_EQ(run.steps_done(), 1);
  EXPECT_EQ(run.train(), TrainingStatus::non_finite);
  EXPECT_EQ(run.problem(), "training loss: expected a finite number, got NaN at step 2");
  // The step that failed has left no trace in the weights.
  spoil(run, 1);
  spoil(same, 1);
  EXPECT_TRUE(same_weights(run, same));
}

TEST(TrainingRun, TakesTheVocabularyFromTheData) {
  const auto data = tiny_data();
  const TrainingRun run = tiny_run();
  EXPECT_EQ(*common(run.model_options()).vocabulary, data->tokenizer->vocabulary());
  tasks::language::LanguageModelOptions model = tiny_model();
  model.vocabulary = 7;
  EXPECT_THROW(TrainingRun(model, tiny_training(), tasks::language::make_language_modelling(data)), UsageError);
}

TEST(TrainingRun, RefusesAModelBeyondTheMemory) {
  tasks::language::LanguageModelOptions model = tiny_model();
  model.width = 1 << 16;
  model.heads = 512;
  model.layers = 100;
  // The average of the weights is a fifth number of each.
  for (const auto& [ema, needed] : {std::pair(0.0, "76800"), std::pair(0.99, "96000")}) {
    TrainingOptions training = tiny_training();
    training.ema = ema;
    try {
      const TrainingRun run(model, training, tiny_task());
      ADD_FAILURE() << "made";
    } catch (const Error& error) {
      EXPECT_TRUE(
          std::string(error.what())
              .starts_with(std::string("memory: expected ") + needed + " GiB for 5153976352768 parameters, got"))
          << error.what();
    }
  }
}

TEST(TrainingRun, RefusesDevicesThatAreNotThere) {
  const auto refusal = [](const char* device) -> std::string {
    TrainingOptions options = tiny_training();
    options.device = device;
    try {
      const TrainingRun run(tiny_model(), options, tiny_task());
      return "made";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal("cpu"), "made");
  EXPECT_EQ(refusal("gpu"),
            "training.device: expected cpu, xpu, mps (the nearest of 4 names), with a number as in cuda:1 or without, "
            "got gpu");
  EXPECT_EQ(refusal("cuda:x").substr(0, 25), "training.device: expected");
  EXPECT_EQ(refusal("cuda:77"),
            "training.device: expected a device that this machine and its PyTorch have, such as cpu, got cuda:77");
}

TEST(TrainingRun, MeasuresItsRate) {
  EXPECT_GT(measure_steps_per_second(tiny_model(), tiny_training(), tiny_task(), 0.05), 1);
}

TEST(TrainingRun, MeasuresAndShowsTheAverageOfItsWeights) {
  const TemporaryFolder folder;
  TrainingOptions training = tiny_training();
  training.ema = 0.75;
  TrainingRun run(tiny_model(), training, tiny_task());
  const auto weights = [&] { return run.model()->named_parameters()["layers.0.feed_forward.up.weight"].detach(); };
  at::Tensor average = weights().clone();
  for (int step = 0; step < 3; ++step) {
    run.step();
    average = 0.75 * average + 0.25 * weights();
  }
  const at::Tensor before = weights().clone();
  const double of_average = held_out_loss(run.measure());
  EXPECT_TRUE(at::equal(weights(), before));
  run.save(folder.path() / "checkpoint");
  const SafeTensorsFile saved(folder.path() / "checkpoint");
  expect_whole(saved);
  const auto tensor = [&](const char* name) { return saved.tensor(*saved.find(name)); };
  EXPECT_TRUE(at::allclose(tensor("average.layers.0.feed_forward.up.weight"), average, 1e-6, 1e-7));
  EXPECT_TRUE(at::equal(tensor("model.layers.0.feed_forward.up.weight"), before));
  EXPECT_EQ(prefix_in_use(saved), "average.");

  // The same weights in a run that averages nothing.
  training.ema = 0;
  TrainingRun plain(tiny_model(), training, tiny_task());
  load_weights(*plain.model(), saved, average_prefix);
  EXPECT_EQ(held_out_loss(plain.measure()), of_average);
  load_weights(*plain.model(), saved);
  EXPECT_NE(held_out_loss(plain.measure()), of_average);
}

// A task whose batches take their time, and are counted.
class SlowTask final : public DecoratedTask {
 public:
  SlowTask(std::shared_ptr<const Task> task, std::chrono::milliseconds pause)
      : DecoratedTask(std::move(task)), pause_(pause) {}
  std::int64_t batches() const { return batches_; }

  Batch batch(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place) const override {
    ++batches_;
    std::this_thread::sleep_for(pause_);
    return DecoratedTask::batch(model, training, place);
  }

 private:
  std::chrono::milliseconds pause_;
  mutable std::int64_t batches_ = 0;
};

TEST(TrainingRun, MeasuresThePrecisionOfSlowStepsInFour) {
  using namespace std::chrono_literals;
  TrainingOptions training = tiny_training();
  training.precision = "bf16";
  for (const auto& [pause, steps] : {std::pair{300ms, 4}, {0ms, 12}}) {
    const auto task = std::make_shared<SlowTask>(tiny_task(), pause);
    cost_of_precision(tiny_model("softmax"), training, task);
    EXPECT_GE(task->batches(), 4);
    EXPECT_LE(task->batches(), steps);
  }
}

TEST(TrainingRun, SaysWhereAPrecisionIsSlowerThanTheDefault) {
  TrainingOptions training = tiny_training();
  EXPECT_EQ(cost_of_precision(tiny_model("softmax"), training, tiny_task()), 1);
  training.precision = "bf16";
  const double cost = cost_of_precision(tiny_model("softmax"), training, tiny_task());
  EXPECT_TRUE(std::isfinite(cost) && cost > 0) << cost;  // which it is depends on the machine
  EXPECT_EQ(precision_note("bf16", 1), "");
  EXPECT_EQ(precision_note("bf16", 1.05), "");  // noise
  EXPECT_EQ(precision_note("bf16", 0.7), "");
  EXPECT_EQ(precision_note("bf16", 1.62),
            "training.precision: steps in bf16 take 1.6 times as long as in fp32 here, measured on a few");
}

}  // namespace
}  // namespace cogwheel::runs
