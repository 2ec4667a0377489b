// A checkpoint holds "model.<name>", "first_moment.<name>" and "second_moment.<name>" for every parameter, and the rest
// of the run as JSON under "state" in the metadata. The data order needs no state: it follows from seed and step.
#include "cogwheel/train/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {
namespace {

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
  target.copy_(found->second);
}

// What the bits of a run depend on beside its checkpoint.
nlohmann::json machine() {
  return {{"instruction_set", at::get_cpu_capability()},
          {"threads", std::to_string(at::get_num_threads())},
          {"torch", TORCH_VERSION}};
}

nlohmann::json number(std::optional<double> value) { return value ? nlohmann::json(*value) : nlohmann::json(nullptr); }

std::optional<double> optional_number(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

}  // namespace

void load_weights(LanguageModel& model, const SafeTensors& checkpoint, const std::filesystem::path& path) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->named_parameters())
    copy_tensor(checkpoint, "model." + parameter.key(), parameter.value(), path);
}

void TrainingRun::save(const std::filesystem::path& path) const {
  SafeTensors checkpoint;
  for (const auto& parameter : optimizer_.parameters()) {
    checkpoint.tensors["model." + parameter.name] = parameter.value.detach();
    checkpoint.tensors["first_moment." + parameter.name] = parameter.first_moment;
    checkpoint.tensors["second_moment." + parameter.name] = parameter.second_moment;
  }
  const nlohmann::json state = {{"step", steps_done_},
                                {"seed", options_.seed},
                                {"mechanism", model_->options().mechanism},
                                {"position", model_->options().position},
                                {"seconds", seconds_},
                                // NaN, where no step was made, is written as null.
                                {"train_loss", last_train_loss_},
                                {"held_out_loss", number(last_held_out_loss_)},
                                {"best_held_out_loss", number(best_held_out_loss_)},
                                {"loss_sum", loss_sum_},
                                {"loss_count", loss_count_},
                                {"seconds_at_report", seconds_at_report_},
                                {"machine", machine()}};
  checkpoint.metadata = {{"format", "cogwheel checkpoint 1"}, {"state", state.dump()}};
  save_safetensors(checkpoint, path);
}

std::vector<std::string> TrainingRun::load(const std::filesystem::path& path) {
  const SafeTensors checkpoint = load_safetensors(path);
  const auto text = checkpoint.metadata.find("state");
  const auto state = text == checkpoint.metadata.end()
                         ? nlohmann::json()
                         : nlohmann::json::parse(text->second, nullptr, /*exceptions=*/false);
  try {
    const auto seed = state.at("seed").get<std::uint64_t>();
    if (seed != options_.seed)
      throw Error(expected_got(path.string(), "a run of seed " + std::to_string(options_.seed), std::to_string(seed)));
    // Shapes alone would not tell a softmax model from a Cog one, nor the two layouts of rotary positions.
    const auto mechanism = state.at("mechanism").get<std::string>();
    if (mechanism != model_->options().mechanism)
      throw Error(expected_got(path.string(), "a run with " + model_->options().mechanism, mechanism));
    const auto position = state.value("position", std::string("learned"));
    if (position != model_->options().position)
      throw Error(expected_got(path.string(), "a run with " + model_->options().position + " positions", position));
    // Everything that may fail comes before the first change.
    TrainingRun loaded(model_->options(), options_, data_);
    load_weights(loaded.model_, checkpoint, path);
    for (const auto& parameter : loaded.optimizer_.parameters()) {
      copy_tensor(checkpoint, "first_moment." + parameter.name, parameter.first_moment, path);
      copy_tensor(checkpoint, "second_moment." + parameter.name, parameter.second_moment, path);
    }
    loaded.steps_done_ = state.at("step").get<std::int64_t>();
    loaded.optimizer_.set_steps_done(loaded.steps_done_);
    loaded.seconds_ = state.at("seconds").get<double>();
    loaded.last_train_loss_ =
        optional_number(state.at("train_loss")).value_or(std::numeric_limits<double>::quiet_NaN());
    loaded.last_held_out_loss_ = optional_number(state.at("held_out_loss"));
    loaded.best_held_out_loss_ = optional_number(state.at("best_held_out_loss"));
    loaded.loss_sum_ = state.at("loss_sum").get<double>();
    loaded.loss_count_ = state.at("loss_count").get<std::int64_t>();
    loaded.seconds_at_report_ = state.at("seconds_at_report").get<double>();

    std::vector<std::string> differences;
    const nlohmann::json here = machine();
    for (const auto& [what, value] : state.at("machine").items())
      if (here.contains(what) && here[what] != value)
        differences.push_back("the checkpoint was written with " + what + " " + value.get<std::string>() +
                              ", this is " + here[what].get<std::string>() + ": the bits may differ from here on");
    *this = std::move(loaded);
    return differences;
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "a checkpoint of a training run", "a file without its state"));
  }
}

}  // namespace cogwheel
