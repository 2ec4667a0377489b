#include "cogwheel/tasks/language/lessons.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/nn/conversion/weight_conversion.h"
#include "cogwheel/nn/losses/distillation_loss.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/convertible.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/tasks/language/packed_loss.h"

namespace cogwheel::tasks::language {
namespace {

namespace fs = std::filesystem;

const std::string transfer = "transfer";

}  // namespace

// A run that another learns from: its model's options, and the hash of the checkpoint.
struct Lessons::KnownRun {
  std::string key;  // that names it: "task.start"
  runs::RunFolder folder;
  LanguageModelOptions model;
  std::string sha256;

  KnownRun(std::string name, const fs::path& path, const std::string& recorded)
      : key(std::move(name)), folder(open(key, path)) {
    const runs::RunConfig config = runs::load_config(folder.config_path());
    const auto* const options = config.model.get_if<LanguageModelOptions>();
    if (options == nullptr)
      throw Error(expected_got(key, "a run of a language model",
                               "one of the task " + config.task.name + ", " + folder.path().string()));
    model = *options;
    sha256 = sha256_of_file(folder.checkpoint_path());
    if (!recorded.empty() && recorded != sha256)
      throw Error(expected_got(key + ", " + path.string(), "the checkpoint that was recorded, SHA-256 " + recorded,
                               "another, " + sha256));
  }
  fs::path tokenizer() const { return path_exists(folder.tokenizer_path()) ? folder.tokenizer_path() : fs::path(); }
  void expect_tokenizer(const std::string& content) const {
    if (const fs::path own = tokenizer(); !own.empty() && read_file(own) != content)
      throw Error(
          expected_got(key, "a run with the tokenizer of the data", folder.path().string() + ", which has another"));
  }

 private:
  static runs::RunFolder open(const std::string& key, const fs::path& path) {
    try {
      return runs::RunFolder::open(path);
    } catch (const Error& error) {
      throw Error(key + ": " + error.what());
    }
  }
};

// Loaded when it first teaches, on the device of who learns; where there are shapes alone, its shape.
class Lessons::Teacher {
 public:
  explicit Teacher(KnownRun run)
      : run_(std::move(run)), shape_([&] {
          const nn::PlaceParameters nowhere(at::kMeta);
          return LanguageModel(run_.model);
        }()) {}

  const KnownRun& run() const { return run_; }
  LanguageModelImpl& on(const at::Device& device) const {
    if (device.is_meta()) return *shape_;
    const std::lock_guard lock(mutex_);
    if (!model_) {
      model_ = load_language_model(run_.folder);
      for (at::Tensor& parameter : (*model_)->parameters()) parameter.set_requires_grad(false);
    }
    if ((*model_)->token_embedding().device() != device) (*model_)->to(device);
    return **model_;
  }

 private:
  KnownRun run_;
  mutable LanguageModel shape_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<LanguageModel> model_;
};

Lessons::Lessons(const runs::RunConfig& config, const fs::path& folder) {
  runs::TaskOptionReader reader(config.task);
  const std::string start = reader.later_path("start"), start_sha256 = reader.later_text("start_sha256"),
                    teacher = reader.later_path("teacher"), teacher_sha256 = reader.later_text("teacher_sha256");
  const bool taught = !teacher.empty();
  share_ = reader.later_number("teacher_share", taught ? 0.5 : 0, Range<double>{0, 1});
  temperature_ = reader.later_number("teacher_temperature", 1, Range<double>{1e-3, 100});  // logits over it stay finite
  transfer_steps_ = reader.later_whole("transfer_steps", 0, Range<std::int64_t>{0, runs::steps_range.max});
  options_ = reader.finish();
  if (!taught)
    for (const char* key : {"teacher_share", "teacher_temperature", "transfer_steps"})
      if (config.task.values.contains(key))
        throw UsageError(expected_got(std::string("task.") + key, "task.teacher beside it", "no teacher"));
  if (taught && share_ == 0 && transfer_steps_ == 0)
    throw UsageError(expected_got("task.teacher_share", "above 0, or task.transfer_steps", "a teacher of nothing"));
  // A run that has begun has weights of its own.
  if (!start.empty() && (folder.empty() || !runs::RunFolder::holds_checkpoint(folder))) {
    start_ = std::make_shared<const KnownRun>("task.start", start, start_sha256);
    options_.values["start_sha256"] = start_->sha256;
  }
  if (!taught) return;
  try {
    teacher_ = std::make_shared<const Teacher>(KnownRun("task.teacher", teacher, teacher_sha256));
  } catch (const Error& error) {
    // Who only reads a run has no use for its teacher.
    if (folder.empty() || teacher_sha256.empty()) throw;
    why_no_teacher_ = error.what();
    return;
  }
  options_.values["teacher_sha256"] = teacher_->run().sha256;
  options_.values["teacher_share"] = share_;
  options_.values["teacher_temperature"] = temperature_;
  options_.values["transfer_steps"] = transfer_steps_;
  // Before anything is forecast or measured, which counts what is there.
  if (folder.empty()) teacher_->on(at::kCPU);
}

fs::path Lessons::tokenizer() const {
  if (!start_) return {};
  const fs::path file = start_->tokenizer();
  if (file.empty())
    throw Error(expected_got("task.start", "a run with a tokenizer", start_->folder.path().string() + " without one"));
  return file;
}

std::int64_t Lessons::vocabulary() const { return start_ ? start_->model.vocabulary : 0; }

bool Lessons::allows_more_words() const { return options_.values.contains("start_sha256"); }

void Lessons::complete(LanguageModelOptions& model) const {
  if (start_) {
    if (model.vocabulary == 0) model.vocabulary = start_->model.vocabulary;
    if (model.feed_forward == 0) model.feed_forward = start_->model.feed_forward_width();
    expect_convertible(start_->model, model, "task.start, " + start_->folder.path().string() + ",");
  }
  if (!teacher_) return;
  const KnownRun& run = teacher_->run();
  const auto expect = [&](const char* key, std::int64_t got, std::int64_t expected, const char* what) {
    if (got != expected)
      throw UsageError(expected_got(key, what + std::to_string(expected) + ", as the model",
                                    std::to_string(got) + " of " + run.folder.path().string()));
  };
  if (model.vocabulary != 0) expect("task.teacher", run.model.vocabulary, model.vocabulary, "a vocabulary of ");
  const std::int64_t longest = teacher_->on(at::kMeta).longest_text();
  if (longest < model.context)
    throw UsageError(expected_got("task.teacher", "a context of at least " + std::to_string(model.context),
                                  std::to_string(longest) + " of " + run.folder.path().string()));
  if (transfer_steps_ == 0) return;
  expect("task.transfer_steps: task.teacher", run.model.layers, model.layers, "layers: ");
  expect("task.transfer_steps: task.teacher", run.model.width, model.width, "a width of ");
}

void Lessons::expect_tokenizer(const std::string& content) const {
  if (start_) start_->expect_tokenizer(content);
  if (teacher_) teacher_->run().expect_tokenizer(content);
}

void Lessons::initialize(LanguageModelImpl& model) const {
  if (!why_no_teacher_.empty()) throw Error(why_no_teacher_);
  if (!start_) return;
  const auto given = load_language_model(start_->folder);
  const at::Device device = model.token_embedding().device();
  (*given)->to(device);
  nn::convert_weights(**given, model);
}

std::vector<runs::Phase> Lessons::phases() const {
  if (transfer_steps_ == 0) return {{}};
  return {{transfer, 0}, {"", transfer_steps_}};
}

bool Lessons::is_transfer(const runs::Phase& phase) { return phase.name == transfer; }

LanguageModelImpl& Lessons::teaching(const LanguageModelImpl& model) const {
  return teacher_->on(model.token_embedding().device());
}

at::Tensor Lessons::transfer_loss(LanguageModelImpl& model, const runs::Batch& batch) const {
  LanguageModelImpl& teacher = teaching(model);
  const PassOfBatch pass = pass_of_batch(batch);
  const auto layers = static_cast<std::size_t>(model.options().layers);
  std::vector<at::Tensor> streams(layers), outputs(layers);
  {
    const torch::NoGradGuard no_grad;
    const auto keep = [](std::vector<at::Tensor>& values) {
      return [&values](const nn::HookPoint& at, const at::Tensor& value) {
        values[static_cast<std::size_t>(at.layer)] = value;
      };
    };
    nn::Hooks hooks;
    hooks.read(nn::HookPlace::stream_before, keep(streams));
    hooks.read(nn::HookPlace::attention_output, keep(outputs));
    nn::ForwardContext context = pass.context;
    context.hooks = &hooks;
    teacher.states(pass.tokens, context);
  }
  const at::Tensor told = (pass.targets.flatten() != ignored_target).nonzero().squeeze(1);
  const bool all = told.numel() == pass.targets.numel();
  const auto rows = [&](const at::Tensor& values) {
    const at::Tensor flat = values.flatten(0, 1);
    return (all ? flat : flat.index_select(0, nn::to_device(told, flat.device()))).to(at::kFloat);
  };
  at::Tensor loss;
  nn::Hooks hooks;
  // Each layer begins where the teacher's does, so that none reads what another made.
  hooks.replace(nn::HookPlace::stream_before, [&](const nn::HookPoint& at, const at::Tensor&) {
    return streams[static_cast<std::size_t>(at.layer)];
  });
  hooks.supply(nn::HookPlace::feed_forward_output,
               [&](const nn::HookPoint& at) { return at::zeros_like(streams[static_cast<std::size_t>(at.layer)]); });
  hooks.read(nn::HookPlace::attention_output, [&](const nn::HookPoint& at, const at::Tensor& value) {
    const at::Tensor missed = rows(value) - rows(outputs[static_cast<std::size_t>(at.layer)]),
                     squared = missed.square().sum(1).mean();
    loss = loss.defined() ? loss + squared : squared;
  });
  nn::ForwardContext context = pass.context;
  context.hooks = &hooks;
  model.states(pass.tokens, context);
  return loss / static_cast<double>(layers);
}

at::Tensor Lessons::loss(LanguageModelImpl& model, const runs::Batch& batch, std::uint64_t dropout_seed) const {
  if (share_ == 0) return packed_loss(model, batch, {.dropout = model.dropout(dropout_seed)});
  const PassOfBatch pass = pass_of_batch(batch);
  nn::ForwardContext context = pass.context;
  context.dropout = model.dropout(dropout_seed);
  LanguageModelImpl& teacher = teaching(model);
  const auto taught = [&] {
    const torch::NoGradGuard no_grad;
    return teacher.target_rows(pass.tokens, pass.targets, pass.context).states;
  };
  const LanguageModelImpl::TargetRows own = model.target_rows(pass.tokens, pass.targets, context);
  if (own.targets.numel() == 0) return own.states.sum() * 0;
  const nn::TeacherHead head{taught(), teacher.unembedding(), teacher.unembedding_bias()};
  return nn::distilled_head_loss(own.states, model.unembedding(), model.unembedding_bias(), own.targets, head, share_,
                                 temperature_);
}

}  // namespace cogwheel::tasks::language
