// A checkpoint holds "model.<name>", "first_moment.<name>" and "second_moment.<name>" for every parameter, and in the
// metadata, as JSON, the configuration that it is of and the rest of the run ("state"), with a hash of it all. The data
// order needs no state: it follows from seed and step.
#include "cogwheel/train/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/models/language_model.h"
#include "cogwheel/ops/layers/matrix_product_library.h"
#include "cogwheel/train/adamw.h"
#include "cogwheel/train/config_record.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {
namespace {

const std::string weight_prefix = "model.", first_moment_prefix = "first_moment.",
                  second_moment_prefix = "second_moment.";

bool is_weight(const std::string& name) { return name.starts_with(weight_prefix); }

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

void copy_tensor(const SafeTensors& checkpoint, const std::string& name, at::Tensor target,
                 const std::filesystem::path& path) {
  const auto found = checkpoint.tensors.find(name);
  const std::string expected = name + " of shape " + shape_text(target.sizes());
  if (found == checkpoint.tensors.end()) throw Error(expected_got(path.string(), expected, "no such tensor"));
  if (found->second.sizes() != target.sizes())
    throw Error(expected_got(path.string(), expected, "shape " + shape_text(found->second.sizes())));
  if (found->second.scalar_type() != target.scalar_type())
    throw Error(expected_got(path.string(), name + " of type " + at::toString(target.scalar_type()),
                             at::toString(found->second.scalar_type())));
  target.copy_(found->second);
}

// What the bits of a run depend on beside its checkpoint.
nlohmann::json machine() {
  return {{"instruction_set", at::get_cpu_capability()},
          {"matrix_products", matrix_product_library()},
          {"threads", std::to_string(at::get_num_threads())},
          {"torch", TORCH_VERSION}};
}

nlohmann::json number(std::optional<double> value) { return value ? nlohmann::json(*value) : nlohmann::json(nullptr); }

std::optional<double> optional_number(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

void expect_whole(const SafeTensors& checkpoint, const std::filesystem::path& path) {
  const auto recorded = checkpoint.metadata.find("sha256");
  // Older ones have none.
  if (recorded != checkpoint.metadata.end() && recorded->second != sha256(checkpoint))
    throw Error(expected_got(path.string(), "the contents that were written (SHA-256 " + recorded->second + ")",
                             "others: the file is damaged"));
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (tensor.is_floating_point() &&
        !(is_weight(name) ? tensor.isfinite() : tensor.isnan().logical_not()).all().item<bool>())
      throw Error(expected_got(path.string(), "finite numbers", "NaN or infinity in " + name));
}

void expect_configuration(const RunConfig& configuration, const SafeTensors& checkpoint, const nlohmann::json& state,
                          const std::filesystem::path& path) {
  if (const auto recorded = recorded_configuration(checkpoint, path))
    return expect_same(configuration, *recorded, path.string());
  // Older ones say less, but shapes alone would not tell a softmax model from a Cog one, nor the two layouts of rotary
  // positions.
  nlohmann::ordered_json assumed = to_json(configuration);
  assumed["training.seed"] = state.at("seed");
  assumed["model.mechanism"] = state.at("mechanism");
  assumed["model.position"] = state.value("position", "learned");
  expect_same(configuration, assumed, path.string());
}

// Numbers of the state, within what they can be.
class State {
 public:
  State(const nlohmann::json& json, const std::filesystem::path& path) : json_(json), path_(path) {}
  double number(const char* key, double most = std::numeric_limits<double>::max()) const {
    return within(key, json_.at(key).get<double>(), Range<double>{0, most});
  }
  std::int64_t count(const char* key, std::int64_t most) const {
    if (!json_.at(key).is_number_integer()) throw refusal(key, "a whole number");
    return within(key, json_.at(key).get<std::int64_t>(), Range<std::int64_t>{0, most});
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

}  // namespace

SafeTensors load_checkpoint(const std::filesystem::path& path) {
  SafeTensors checkpoint = load_safetensors(path);
  expect_whole(checkpoint, path);
  return checkpoint;
}

std::optional<nlohmann::ordered_json> recorded_configuration(const SafeTensors& checkpoint,
                                                             const std::filesystem::path& path) {
  const auto recorded = checkpoint.metadata.find("configuration");
  if (recorded == checkpoint.metadata.end()) return std::nullopt;
  auto json = nlohmann::ordered_json::parse(recorded->second, nullptr, /*exceptions=*/false);
  if (json.is_object()) return json;
  throw Error(expected_got(path.string() + ": configuration", "an object of keys and values", recorded->second));
}

void load_weights(LanguageModel& model, const SafeTensors& checkpoint, const std::filesystem::path& path) {
  const torch::NoGradGuard no_grad;
  const auto parameters = model->named_parameters();
  for (const auto& parameter : parameters)
    copy_tensor(checkpoint, weight_prefix + parameter.key(), parameter.value(), path);
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (is_weight(name) && parameters.find(name.substr(weight_prefix.size())) == nullptr)
      throw Error(expected_got(path.string(), "the tensors of its configuration", "another, " + name));
}

RunConfig TrainingRun::configuration() const {
  RunConfig config;
  config.data.tokenizer = data_->tokenizer->kind();
  config.model = model()->options();
  config.training = options_;
  return completed(std::move(config), *data_);
}

void TrainingRun::save(const std::filesystem::path& path) const {
  SafeTensors checkpoint;
  for (const auto& parameter : optimizer_->parameters()) {
    if (!parameter.value.isfinite().all().item<bool>())
      throw NonFiniteLoss(
          expected_got("weights", "finite numbers",
                       "NaN or infinity in " + parameter.name + " at step " + std::to_string(steps_done_)));
    checkpoint.tensors[weight_prefix + parameter.name] = parameter.value.detach();
    checkpoint.tensors[first_moment_prefix + parameter.name] = parameter.first_moment;
    checkpoint.tensors[second_moment_prefix + parameter.name] = parameter.second_moment;
  }
  const nlohmann::json state = {{"step", steps_done_},
                                {"seconds", seconds_},
                                {"evaluation_seconds", evaluation_seconds_},
                                // NaN, where no step was made, is written as null.
                                {"train_loss", last_train_loss_},
                                {"held_out_loss", number(last_held_out_loss_)},
                                {"best_held_out_loss", number(best_held_out_loss_)},
                                {"loss_sum", loss_sum_},
                                {"loss_count", loss_count_},
                                {"seconds_at_report", seconds_at_report_},
                                {"machine", machine()}};
  checkpoint.metadata = {
      {"format", "cogwheel checkpoint 1"}, {"configuration", to_json(configuration()).dump()}, {"state", state.dump()}};
  checkpoint.metadata["sha256"] = sha256(checkpoint);
  save_safetensors(checkpoint, path);
}

std::vector<std::string> TrainingRun::load(const std::filesystem::path& path) {
  const SafeTensors checkpoint = load_checkpoint(path);
  try {
    const auto text = checkpoint.metadata.find("state");
    const nlohmann::json state =
        text == checkpoint.metadata.end() ? nlohmann::json() : nlohmann::json::parse(text->second);
    expect_configuration(configuration(), checkpoint, state, path);
    // Everything that may fail comes before the first change.
    TrainingRun loaded(model()->options(), options_, data_);
    load_weights(loaded.model(), checkpoint, path);
    for (const auto& parameter : loaded.optimizer_->parameters()) {
      copy_tensor(checkpoint, first_moment_prefix + parameter.name, parameter.first_moment, path);
      copy_tensor(checkpoint, second_moment_prefix + parameter.name, parameter.second_moment, path);
    }
    const State of(state, path);
    loaded.steps_done_ = of.count("step", options_.steps);
    loaded.optimizer_->set_steps_done(loaded.steps_done_);
    loaded.seconds_ = of.number("seconds");
    if (state.contains("evaluation_seconds")) loaded.evaluation_seconds_ = of.number("evaluation_seconds");
    loaded.last_train_loss_ =
        optional_number(state.at("train_loss")).value_or(std::numeric_limits<double>::quiet_NaN());
    loaded.last_held_out_loss_ = optional_number(state.at("held_out_loss"));
    loaded.best_held_out_loss_ = optional_number(state.at("best_held_out_loss"));
    loaded.loss_sum_ = of.number("loss_sum");
    loaded.loss_count_ = of.count("loss_count", loaded.steps_done_);
    loaded.seconds_at_report_ = of.number("seconds_at_report", loaded.seconds_);

    std::vector<std::string> differences;
    const nlohmann::json here = machine();
    for (const auto& [what, there] : state.at("machine").get<std::map<std::string, std::string>>())
      if (here.contains(what) && here[what] != there)
        differences.push_back("the checkpoint was written with " + what + " " + there + ", this is " +
                              here[what].get<std::string>() + ": the bits may differ from here on");
    *this = std::move(loaded);
    return differences;
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "a checkpoint of a training run", "a file without its state"));
  }
}

}  // namespace cogwheel
