// A checkpoint of a run (runs/weights.h). The data order needs no state: it follows from seed and step.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/nn/module.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/ops/layers/matrix_product_library.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/training/adamw.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/runs/training/weight_average.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::runs {
namespace {

const std::string first_moment_prefix = "first_moment.", second_moment_prefix = "second_moment.";

// Properties of the machine that the bits of a run depend on.
nlohmann::json machine(const TrainingOptions& training) {
  return {{"device", training.device},
          {"engine", ops::cpu_is_composed() ? "composed" : "fused"},
          {"instruction_set", at::get_cpu_capability()},
          {"matrix_products", ops::matrix_product_library()},
          {"threads", std::to_string(at::get_num_threads())},
          {"torch", TORCH_VERSION}};
}

bool multiplies_bfloat16(const TrainingOptions& training) { return training.precision == "bf16"; }

// How this process multiplies bfloat16, in attention and in layers, for runs that do.
nlohmann::json products(const TrainingOptions& training) {
  auto chosen = nlohmann::json::object();
  if (multiplies_bfloat16(training))
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

Error weights_alone(const std::filesystem::path& path) {
  return Error(expected_got(path.string(), "a checkpoint of a training run", "weights alone, without its state"));
}

}  // namespace

void expect_resumable(const std::filesystem::path& path) {
  if (!load_metadata(path).contains("state")) throw weights_alone(path);
}

RunConfig TrainingRun::configuration() const { return config_; }

void TrainingRun::save(const std::filesystem::path& path) const {
  SafeTensors checkpoint;
  for (const auto& parameter : optimizer_->parameters()) {
    if (!parameter.value.isfinite().all().item<bool>())
      throw NonFiniteLoss(
          expected_got("weights", "finite numbers",
                       "NaN or infinity in " + parameter.name + " at step " + std::to_string(steps_done_)));
    checkpoint.tensors[weight_prefix + parameter.name] = parameter.value.detach().cpu();
    checkpoint.tensors[first_moment_prefix + parameter.name] = parameter.first_moment.cpu();
    checkpoint.tensors[second_moment_prefix + parameter.name] = parameter.second_moment.cpu();
  }
  if (average_)
    for (const auto& [name, value] : average_->averages()) checkpoint.tensors[average_prefix + name] = value.cpu();
  const nlohmann::json state = {{"step", steps_done_},
                                {"seconds", seconds_},
                                {"evaluation_seconds", evaluation_seconds_},
                                // NaN, where no step was made, is written as null.
                                {"train_loss", last_train_loss_},
                                {"tokens", tokens_},
                                {"measured", measured_to_json(last_measured_)},
                                {"best", number(best_)},
                                {"loss_sum", loss_sum_},
                                {"loss_count", loss_count_},
                                {"seconds_at_report", seconds_at_report_},
                                {"tokens_at_report", tokens_at_report_},
                                {"machine", machine(config_.training)},
                                {"products", products(config_.training)}};
  checkpoint.metadata = {
      {"format", checkpoint_format}, {"configuration", to_json(configuration()).dump()}, {"state", state.dump()}};
  checkpoint.metadata["sha256"] = sha256(checkpoint);
  save_safetensors(checkpoint, path);
}

std::vector<std::string> TrainingRun::load(const std::filesystem::path& path) {
  const SafeTensors checkpoint = load_checkpoint(path);
  try {
    const auto text = checkpoint.metadata.find("state");
    const nlohmann::json state =
        text == checkpoint.metadata.end() ? nlohmann::json() : nlohmann::json::parse(text->second);
    if (state.is_null()) throw weights_alone(path);
    expect_same(configuration(), recorded_configuration(checkpoint, path), path.string());
    // Everything that may fail comes before the first change.
    TrainingRun loaded(config_.model, config_.training, task_);
    load_weights(*loaded.model_, checkpoint, path);
    for (const auto& parameter : loaded.optimizer_->parameters()) {
      copy_tensor(checkpoint, first_moment_prefix + parameter.name, parameter.first_moment, path);
      copy_tensor(checkpoint, second_moment_prefix + parameter.name, parameter.second_moment, path);
    }
    if (loaded.average_)
      for (const auto& [name, value] : loaded.average_->averages())
        copy_tensor(checkpoint, average_prefix + name, value, path);
    const State of(state, path);
    loaded.steps_done_ = of.count("step", config_.training.steps);
    loaded.optimizer_->set_steps_done(loaded.steps_done_);
    loaded.seconds_ = of.number("seconds");
    loaded.evaluation_seconds_ = of.number("evaluation_seconds");
    loaded.last_train_loss_ =
        optional_number(state.at("train_loss")).value_or(std::numeric_limits<double>::quiet_NaN());
    loaded.last_measured_ = measured_from_json(state.at("measured"));
    loaded.best_ = optional_number(state.at("best"));
    loaded.loss_sum_ = of.loss("loss_sum");
    loaded.loss_count_ = of.count("loss_count", loaded.steps_done_);
    loaded.seconds_at_report_ = of.number("seconds_at_report", loaded.seconds_);
    loaded.tokens_ = of.count("tokens", std::numeric_limits<std::int64_t>::max());
    loaded.tokens_at_report_ = of.count("tokens_at_report", loaded.tokens_);

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
    *this = std::move(loaded);
    return differences;
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "a checkpoint of a training run", "a file without its state"));
  }
}

}  // namespace cogwheel::runs
