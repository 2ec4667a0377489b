// A checkpoint of a run (runs/weights.h). The data order needs no state: it follows from seed and step.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/nn/module.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/build_id.h"
#include "cogwheel/core/range.h"
#include "cogwheel/distributed/ranks.h"
#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/ops/layers/matrix_product_library.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/training/divided_moments.h"
#include "cogwheel/runs/training/divided_weights.h"
#include "cogwheel/runs/training/optimizer.h"
#include "cogwheel/runs/training/shared_slices.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/runs/training/weight_average.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::runs {
namespace {

const std::string first_moment_prefix = "first_moment.", second_moment_prefix = "second_moment.";

// Properties of the machine that the bits of a run depend on.
nlohmann::json machine(const TrainingOptions& training) {
  return {{"device", training.device},
          {"engine", ops::attention_is_composed() ? "composed" : "fused"},
          {"instruction_set", at::get_cpu_capability()},
          {"matrix_products", ops::matrix_product_library()},
          {"threads", std::to_string(at::get_num_threads())},
          {"torch", TORCH_VERSION}};
}

// How this process multiplies bfloat16, in attention and in layers, for runs that do.
nlohmann::json products(const TrainingOptions& training) {
  auto chosen = nlohmann::json::object();
  if (training.multiplies_bfloat16())
    for (const ops::BFloat16Product& each : ops::bfloat16_products()) chosen[std::string(each.where)] = each.product;
  return chosen;
}

nlohmann::json number(std::optional<double> value) { return value ? nlohmann::json(*value) : nlohmann::json(nullptr); }

std::optional<double> optional_number(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// [[name, value], …], in order.
nlohmann::json measured_to_json(const MeasuredValues& values) {
  auto json = nlohmann::json::array();
  for (const MeasuredValue& each : values) json.push_back({each.measure, each.value});
  return json;
}

MeasuredValues measured_from_json(const nlohmann::json& json) {
  MeasuredValues values;
  for (const auto& pair : json) values.push_back({pair.at(0).get<std::string>(), pair.at(1).get<double>()});
  return values;
}

// Reads numbers of the state and checks their range.
class State {
 public:
  State(const nlohmann::json& json, const std::filesystem::path& path) : json_(json), path_(path) {}
  double number(const char* key, double max = std::numeric_limits<double>::max()) const {
    return within(key, json_.at(key).get<double>(), Range<double>{0, max});
  }
  // A loss may be below 0: that of a density is.
  double loss(const char* key) const {
    constexpr double largest = std::numeric_limits<double>::max();
    return within(key, json_.at(key).get<double>(), Range<double>{-largest, largest});
  }
  std::int64_t count(const char* key, std::int64_t max) const {
    if (!json_.at(key).is_number_integer()) throw refusal(key, "a whole number");
    return within(key, json_.at(key).get<std::int64_t>(), Range<std::int64_t>{0, max});
  }

 private:
  Error refusal(const char* key, const std::string& expected) const {
    return Error(expected_got(path_.string() + ": " + key, expected, json_.at(key).dump()));
  }
  template <class Number>
  Number within(const char* key, Number value, const Range<Number>& range) const {
    if (!range.holds(value)) throw refusal(key, range.text());
    return value;
  }

  const nlohmann::json& json_;
  const std::filesystem::path& path_;
};

void copy_detached(at::Tensor target, const at::Tensor& source) {
  const torch::NoGradGuard no_grad;
  target.copy_(source);
}

Error weights_alone(const std::filesystem::path& path) {
  return Error(expected_got(path.string(), "a checkpoint of a training run", "weights alone, without its state"));
}

}  // namespace

void expect_resumable(const std::filesystem::path& path) {
  if (!SafeTensorsFile(path).metadata().contains("state")) throw weights_alone(path);
}

RunConfig TrainingRun::configuration() const { return config_; }

void TrainingRun::expect_finite_weights(const std::vector<SavedTensor>& tensors) const {
  std::string strange;
  for (const SavedTensor& each : tensors)
    if (strange.empty() && each.name.starts_with(weight_prefix) && !each.value.isfinite().all().item<bool>())
      strange = each.parameter;
  if (!loaded_ && divided_->sum(strange.empty() ? 0 : 1, "whether weights are finite") > 0 && strange.empty())
    strange = "another rank's share of the weights";
  if (!strange.empty())
    throw NonFiniteLoss(
        expected_got("weights", "finite numbers",
                     "NaN or infinity in " + strange + " at step " + std::to_string(progress_.steps_done)));
}

at::Tensor TrainingRun::whole(const SavedTensor& saved) const {
  if (saved.held == SavedTensor::Held::whole) return saved.value;
  if (loaded_) return loaded_->tensor(*loaded_->find(saved.name));
  const std::string what = "the checkpoint of step " + std::to_string(steps_done());
  return saved.held == SavedTensor::Held::share ? divided_->whole(saved.parameter, saved.value, what)
                                                : moments_->whole(saved.value, saved.sizes, what);
}

at::Tensor TrainingRun::part_of(const SavedTensor& saved, const at::Tensor& whole) const {
  switch (saved.held) {
    case SavedTensor::Held::whole:
      return whole;
    case SavedTensor::Held::share:
      return divided_->share(saved.parameter, whole);
    case SavedTensor::Held::stretch:
      return moments_->own(whole);
  }
  throw std::logic_error("a part of a tensor of a checkpoint");
}

bool TrainingRun::saves_together() const { return !divided_->empty() || (moments_ != nullptr && ranks_->count() > 1); }

void TrainingRun::save(const std::filesystem::path& path) const {
  const std::vector<SavedTensor> saved = saved_tensors(progress_.steps_done);
  expect_finite_weights(saved);
  std::vector<TensorToWrite> tensors;
  for (const SavedTensor& each : saved)
    tensors.push_back({each.name, each.value.scalar_type(), each.sizes, [this, &each] { return whole(each); }});
  nlohmann::json state = state_of(progress_, watch_);
  state["machine"] = machine(config_.training);
  state["products"] = products(config_.training);
  std::map<std::string, std::string> metadata = {
      {"format", checkpoint_format}, {"configuration", to_json(configuration()).dump()}, {"state", state.dump()}};
  if (!tokenizer_metadata_) tokenizer_metadata_ = tokenizer_metadata(task_->assets());
  metadata.insert(tokenizer_metadata_->begin(), tokenizer_metadata_->end());
  AtomicFile file(path);
  if (saves_together()) {  // ranks come to each tensor once, in their order
    write_hashed_safetensors(file, tensors, metadata);
  } else {
    metadata["sha256"] = sha256(tensors, metadata);
    write_safetensors(file, tensors, metadata);
  }
  file.commit();
}

void TrainingRun::help_to_save() const {
  if (!saves_together()) return;
  const std::vector<SavedTensor> saved = saved_tensors(progress_.steps_done);
  expect_finite_weights(saved);
  // Of those that share heads the first ones have shares enough.
  if (!divided_->empty() && ranks_->rank() >= shared_->ranks_of_heads()) return;
  for (const SavedTensor& each : saved) whole(each);
}

nlohmann::json TrainingRun::state_of(const Progress& progress, const SpikeWatch& watch) {
  return {{"step", progress.steps_done},
          {"batches", progress.place.batches},
          {"rows", progress.place.rows},
          {"left_out", progress.left_out},
          {"seconds", progress.seconds},
          {"evaluation_seconds", progress.evaluation_seconds},
          // NaN, where no step was made, is written as null.
          {"train_loss", progress.last_train_loss},
          {"tokens", progress.tokens},
          {"measured", measured_to_json(progress.last_measured)},
          {"best", number(progress.best)},
          {"loss_sum", progress.loss_sum},
          {"norm_sum", progress.norm_sum},
          {"waiting_seconds", progress.waiting_seconds},
          {"exchange_seconds", progress.exchange_seconds},
          {"slowest_seconds", progress.slowest_seconds},
          {"loss_count", progress.loss_count},
          {"seconds_at_report", progress.seconds_at_report},
          {"tokens_at_report", progress.tokens_at_report},
          {"recent_losses", watch.losses()},
          {"recent_gradient_norms", watch.gradient_norms()}};
}

// Checkpoints from before there were slices and spikes lack some of it.
TrainingRun::Progress TrainingRun::progress_from(const nlohmann::json& state, SpikeWatch& watch,
                                                 const TrainingOptions& training, const std::filesystem::path& path) {
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  const State of(state, path);
  Progress progress;
  progress.steps_done = of.count("step", training.steps);
  progress.place = {progress.steps_done, progress.steps_done * training.batch};
  if (state.contains("batches")) progress.place = {of.count("batches", any), of.count("rows", any)};
  progress.left_out = state.value("left_out", LeftOutRows());
  progress.seconds = of.number("seconds");
  progress.evaluation_seconds = of.number("evaluation_seconds");
  progress.last_train_loss = optional_number(state.at("train_loss")).value_or(std::numeric_limits<double>::quiet_NaN());
  progress.last_measured = measured_from_json(state.at("measured"));
  progress.best = optional_number(state.at("best"));
  progress.loss_sum = of.loss("loss_sum");
  progress.norm_sum = state.value("norm_sum", 0.0);
  progress.waiting_seconds = state.value("waiting_seconds", 0.0);
  progress.exchange_seconds = state.value("exchange_seconds", 0.0);
  progress.slowest_seconds = state.value("slowest_seconds", 0.0);
  progress.loss_count = of.count("loss_count", progress.steps_done);
  progress.seconds_at_report = of.number("seconds_at_report", progress.seconds);
  progress.tokens = of.count("tokens", any);
  progress.tokens_at_report = of.count("tokens_at_report", progress.tokens);
  watch.set(state.value("recent_losses", std::vector<double>()),
            state.value("recent_gradient_norms", std::vector<double>()));
  return progress;
}

std::vector<TrainingRun::SavedTensor> TrainingRun::saved_tensors(std::int64_t steps) const {
  if (average_waits_ || (moments_ && moments_->are_coming()))
    throw std::logic_error("a checkpoint of weights that have not come");
  using Held = SavedTensor::Held;
  std::vector<SavedTensor> tensors;
  const auto add = [&](const std::string& prefix, const std::string& parameter, const at::Tensor& value) {
    tensors.push_back({prefix + parameter, parameter, value, divided_->contains(parameter) ? Held::share : Held::whole,
                       divided_->whole_sizes(parameter, value)});
  };
  for (const auto& parameter : model_->named_parameters())
    add(weight_prefix, parameter.key(), parameter.value().detach());
  for (const auto& parameter : optimizer_->parameters()) {
    if (parameter.first_step > 0 && parameter.first_step >= steps) continue;
    for (const auto& [prefix, moment] :
         {std::pair(first_moment_prefix, parameter.first_moment), {second_moment_prefix, parameter.second_moment}}) {
      if (!moment.defined()) continue;
      if (moments_)
        tensors.push_back(
            {prefix + parameter.name, parameter.name, moment, Held::stretch, parameter.value.sizes().vec()});
      else
        add(prefix, parameter.name, moment);
    }
  }
  if (average_)
    for (const auto& [name, value] : average_->averages()) add(average_prefix, name, value);
  std::sort(tensors.begin(), tensors.end(),
            [](const SavedTensor& one, const SavedTensor& other) { return one.name < other.name; });
  return tensors;
}

void TrainingRun::expect_alike() const {
  if (ranks_->count() == 1) return;
  nlohmann::json here = {{"machine", machine(config_.training)},
                         {"configuration", to_json(configuration())},
                         {"library", build_id({"cogwheel", "torch"})}};
  if (const nlohmann::json chosen = products(config_.training); !chosen.empty()) here["products"] = chosen;
  const std::vector<std::string> all = ranks_->gathered(here.flatten().dump(), "what the bits depend on");
  const auto first = nlohmann::json::parse(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto there = nlohmann::json::parse(all[rank]);
    for (const auto& [path, value] : first.items()) {
      if (there.value(path, nlohmann::json()) == value) continue;
      const std::string what = path.substr(path.rfind('/') + 1);
      throw UsageError(expected_got("ranks", "the same " + what + " on all",
                                    value.dump() + " on rank 0, " + there.value(path, nlohmann::json()).dump() +
                                        " on rank " + std::to_string(rank)));
    }
    if (there.size() != first.size())
      throw UsageError(expected_got("ranks", "the same configuration on all", "more on rank " + std::to_string(rank)));
  }
}

void TrainingRun::take_from_first() {
  if (ranks_->count() == 1) return;
  const std::string what = "the state after step " + std::to_string(progress_.steps_done);
  const std::string state = ranks_->of_first(state_of(progress_, watch_).dump(), what);
  if (!ranks_->is_first()) {
    progress_ = progress_from(nlohmann::json::parse(state), watch_, config_.training, "the first rank");
    optimizer_->zero_moments();
    optimizer_->zero_gradients();
    optimizer_->set_steps_done(progress_.steps_done);
  }
  std::vector<at::Tensor> alike;
  const bool from_checkpoint = saves_together() && !ranks_->of_first(loaded_ ? "loaded" : "", what).empty();
  for (const SavedTensor& each : saved_tensors(progress_.steps_done)) {
    if (each.held == SavedTensor::Held::whole) {
      alike.push_back(each.value);
    } else if (from_checkpoint) {
      at::Tensor all = ranks_->is_first() ? whole(each) : at::empty(each.sizes, each.value.options().device(at::kCPU));
      ranks_->copy_from_first({all}, what);
      copy_detached(each.value, part_of(each, all));
    } else if (each.held == SavedTensor::Held::share) {  // as made from the seed, as moments, which are 0
      copy_detached(each.value, shared_->same_heads().from_first(each.value, what).result(what));
    }
  }
  ranks_->copy_from_first(alike, what);
  loaded_.reset();
}

std::vector<std::string> TrainingRun::load(const std::filesystem::path& path, const std::set<std::string>& may_differ) {
  const auto file = std::make_shared<const SafeTensorsFile>(path);
  const SafeTensorsFile& checkpoint = *file;
  expect_whole(checkpoint);
  try {
    // Everything that may fail comes before the first change, but for a file that cannot be read a second time.
    const auto text = checkpoint.metadata().find("state");
    const nlohmann::json state =
        text == checkpoint.metadata().end() ? nlohmann::json() : nlohmann::json::parse(text->second);
    if (state.is_null()) throw weights_alone(path);
    expect_same(configuration(), recorded_configuration(checkpoint), path.string(), "", may_differ);
    const auto made = state.at("step").get<std::int64_t>();
    const std::vector<SavedTensor> tensors = saved_tensors(made);
    const auto expect_there = [&](bool weights) {
      for (const SavedTensor& each : tensors)
        if (each.name.starts_with(weight_prefix) == weights)
          entry_for(checkpoint, each.name, at::empty({}, each.value.options()).expand(each.sizes));
    };
    expect_there(/*weights=*/true);
    expect_no_other_weights(*model_, checkpoint);
    expect_there(/*weights=*/false);
    if (may_differ.contains("training.steps") && made > config_.training.steps)
      throw UsageError(expected_got("training.steps", "at least " + std::to_string(made) + ", the steps that were made",
                                    std::to_string(config_.training.steps)));
    SpikeWatch watch(config_.training.spike_deviations);
    Progress progress = progress_from(state, watch, config_.training, path);
    std::vector<std::string> differences;
    const nlohmann::json here = machine(config_.training);
    for (const auto& [what, there] : state.at("machine").get<std::map<std::string, std::string>>())
      if (here.contains(what) && here[what] != there)
        differences.push_back("the checkpoint was written with " + what + " " + there + ", this is " +
                              here[what].get<std::string>() + ": the bits may differ from here on");
    if (state.contains("products"))
      for (const auto& [where, product] : state["products"].get<std::map<std::string, std::string>>())
        if (std::string line = ops::take_product(where, product); !line.empty())
          differences.push_back("the checkpoint's " + std::move(line));
    optimizer_->zero_moments();
    for (const SavedTensor& each : tensors)
      if (each.held == SavedTensor::Held::whole)
        copy_tensor(checkpoint, each.name, each.value);
      else
        copy_detached(each.value, part_of(each, checkpoint.tensor(*checkpoint.find(each.name))));
    if (saves_together()) loaded_ = file;
    optimizer_->zero_gradients();
    optimizer_->set_steps_done(progress.steps_done);
    progress_ = std::move(progress);
    watch_ = std::move(watch);
    return differences;
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "a checkpoint of a training run", "a file without its state"));
  }
}

}  // namespace cogwheel::runs
