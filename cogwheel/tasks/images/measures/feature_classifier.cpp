#include "cogwheel/tasks/images/measures/feature_classifier.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/runs/training/optimizer.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::tasks::images {
namespace {

constexpr std::int64_t images_of_a_pass = 256;
constexpr std::uint32_t mirror_stream = stream_named("mirr");
const std::string classifier_format = "feature classifier";

struct ClassifierLayer {
  const char* name;
  std::int64_t outputs, stride;
};
constexpr std::array<ClassifierLayer, 4> classifier_layers{{{"convolution1", 32, 2},
                                                            {"convolution2", 64, 1},
                                                            {"convolution3", 128, 2},
                                                            {"convolution4", FeatureClassifier::width, 1}}};

// He et al. 2015: keeps the size of what is rectified.
at::Tensor drawn_weight(at::IntArrayRef shape, const at::Generator& generator) {
  at::Tensor weight = at::empty(shape);
  const double inputs = static_cast<double>(weight.numel() / shape[0]);
  return weight.normal_(0, std::sqrt(2 / inputs), generator).requires_grad_();
}

void expect_images(const at::Tensor& images, std::int64_t channels) {
  if (images.dim() != 4 || images.size(1) != channels || images.size(0) < 1 || images.size(2) < 1 || images.size(3) < 1)
    throw Error(expected_got("images", "[images, " + std::to_string(channels) + " channels, height, width]",
                             shape_text(images.sizes())));
}

void expect_labels(const LabelledImages& batch, std::int64_t classes) {
  if (batch.labels.sizes() != at::IntArrayRef({batch.images.size(0)}))
    throw Error(expected_got("labels", "one for each of " + std::to_string(batch.images.size(0)) + " images",
                             shape_text(batch.labels.sizes())));
  const auto lowest = batch.labels.min().item<std::int64_t>(), highest = batch.labels.max().item<std::int64_t>();
  if (lowest < 0 || highest >= classes)
    throw Error(
        expected_got("labels", "0 to " + std::to_string(classes - 1), std::to_string(lowest < 0 ? lowest : highest)));
}

std::int64_t number_at(const runs::SafeTensorsFile& file, const std::string& key, const std::filesystem::path& path) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) throw Error(expected_got(path.string(), "its " + key, "none"));
  return parse_number<std::int64_t>(path.string() + ": " + key, found->second,
                                    {.min = 0, .max = std::int64_t{1} << 40});
}

}  // namespace

FeatureClassifier::FeatureClassifier(std::int64_t channels, std::int64_t classes, std::uint64_t seed)
    : channels_(channels), classes_(classes) {
  expect_within<std::int64_t>("classifier: channels", channels, {.min = 1, .max = 1024});
  expect_within<std::int64_t>("classifier: classes", classes, {.min = 2, .max = 1'000'000});
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::int64_t inputs = channels;
  for (const ClassifierLayer& layer : classifier_layers) {
    const std::string name = layer.name;
    weights_[name + ".weight"] = drawn_weight({layer.outputs, inputs, 3, 3}, generator);
    weights_[name + ".norm.gain"] = at::ones({layer.outputs}).requires_grad_();
    weights_[name + ".norm.offset"] = at::zeros({layer.outputs}).requires_grad_();
    statistics_[name + ".norm.mean"] = at::zeros({layer.outputs});
    statistics_[name + ".norm.variance"] = at::ones({layer.outputs});
    inputs = layer.outputs;
  }
  weights_["logits.weight"] = drawn_weight({classes, width}, generator);
  weights_["logits.bias"] = at::zeros({classes}).requires_grad_();
}

runs::SafeTensors FeatureClassifier::contents() const {
  runs::SafeTensors all;
  for (const auto* tensors : {&weights_, &statistics_})
    for (const auto& [name, tensor] : *tensors) all.tensors[name] = tensor.detach();
  all.metadata = {{"format", classifier_format},
                  {"channels", std::to_string(channels_)},
                  {"classes", std::to_string(classes_)},
                  {"accuracy", number_text(accuracy_)},
                  {"held_out_images", std::to_string(held_out_images_)}};
  return all;
}

void FeatureClassifier::save(const std::filesystem::path& path) const {
  runs::SafeTensors all = contents();
  all.metadata["sha256"] = runs::sha256(all);
  runs::save_safetensors(all, path);
}

FeatureClassifier FeatureClassifier::load(const std::filesystem::path& path) {
  const c10::NoGradGuard no_grad;
  const runs::SafeTensorsFile file(path);
  const auto entry = [&](const std::string& key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (entry("format") != classifier_format)
    throw Error(expected_got(path.string(), "a " + classifier_format, "another safetensors file"));
  if (entry("sha256") != file.sha256())
    throw Error(expected_got(path.string(), "the contents that were written (SHA-256 " + entry("sha256") + ")",
                             "others: the file is damaged"));
  FeatureClassifier classifier(number_at(file, "channels", path), number_at(file, "classes", path), /*seed=*/0);
  classifier.accuracy_ = parse_number<double>(path.string() + ": accuracy", entry("accuracy"), {.min = 0, .max = 1});
  classifier.held_out_images_ = number_at(file, "held_out_images", path);
  for (auto* tensors : {&classifier.weights_, &classifier.statistics_})
    for (auto& [name, tensor] : *tensors) runs::copy_tensor(file, name, tensor);
  return classifier;
}

at::Tensor FeatureClassifier::means_of_last(const at::Tensor& images, bool training) const {
  at::Tensor x = images;
  for (const ClassifierLayer& layer : classifier_layers) {
    const std::string name = layer.name;
    x = at::conv2d(x, weights_.at(name + ".weight"), {}, layer.stride, 1);
    x = at::relu(at::batch_norm(x, weights_.at(name + ".norm.gain"), weights_.at(name + ".norm.offset"),
                                statistics_.at(name + ".norm.mean"), statistics_.at(name + ".norm.variance"), training,
                                /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/false));
  }
  return at::mean(x, {2, 3});
}

at::Tensor FeatureClassifier::features(const at::Tensor& images) const {
  const c10::NoGradGuard no_grad;
  expect_images(images, channels_);
  std::vector<at::Tensor> all;
  for (std::int64_t first = 0; first < images.size(0); first += images_of_a_pass)
    all.push_back(
        means_of_last(images.narrow(0, first, std::min(images_of_a_pass, images.size(0) - first)).to(at::kFloat),
                      /*training=*/false));
  return at::cat(all);
}

at::Tensor FeatureClassifier::classes_of(const at::Tensor& images) const {
  const c10::NoGradGuard no_grad;
  return at::linear(features(images), weights_.at("logits.weight"), weights_.at("logits.bias")).argmax(1);
}

double FeatureClassifier::accuracy_on(const LabelledImages& images) const {
  const at::Tensor right = classes_of(images.images) == images.labels;
  return static_cast<double>(right.sum().item<std::int64_t>()) / static_cast<double>(right.numel());
}

at::Tensor FeatureClassifier::training_logits(const at::Tensor& images) const {
  return at::linear(means_of_last(images, /*training=*/true), weights_.at("logits.weight"), weights_.at("logits.bias"));
}

std::int64_t FeatureClassifier::parameters() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : weights_) count += tensor.numel();
  return count;
}

FeatureClassifier FeatureClassifier::trained(std::int64_t channels, std::int64_t classes,
                                             const ClassifierTraining& training,
                                             const std::function<LabelledImages(std::int64_t step)>& batch,
                                             const LabelledImages& held_out) {
  const c10::AutoGradMode gradients(true);
  expect_within("classifier: steps", training.steps, runs::steps_range);
  expect_within("classifier: learning rate", training.learning_rate, runs::learning_rate_range);
  expect_images(held_out.images, channels);
  expect_labels(held_out, classes);
  FeatureClassifier classifier(channels, classes, training.seed);
  runs::TrainingOptions options;
  options.steps = training.steps;
  options.learning_rate = training.learning_rate;
  options.final_learning_rate = 0;
  options.warm_up = std::min<std::int64_t>(50, training.steps / 10);
  options.weight_decay = training.weight_decay;
  options.clip = 0;
  runs::Optimizer optimizer({classifier.weights_.begin(), classifier.weights_.end()}, options);
  for (std::int64_t step = 0; step < training.steps; ++step) {
    const LabelledImages next = batch(step);
    expect_images(next.images, channels);
    expect_labels(next, classes);
    optimizer.zero_gradients();
    const at::Tensor loss = at::cross_entropy_loss(classifier.training_logits(next.images), next.labels);
    if (!std::isfinite(loss.item<double>()))
      throw Error(expected_got("classifier: loss of step " + std::to_string(step + 1), "a finite number",
                               number_text(loss.item<double>())));
    loss.backward();
    optimizer.step(runs::learning_rate(options, step));
  }
  classifier.accuracy_ = classifier.accuracy_on(held_out);
  classifier.held_out_images_ = held_out.images.size(0);
  return classifier;
}

std::function<LabelledImages(std::int64_t step)> shuffled_batches(const LabelledImages& set, std::int64_t batch,
                                                                  std::uint64_t seed, bool mirrored) {
  expect_images(set.images, set.images.dim() == 4 ? set.images.size(1) : 0);
  expect_within<std::int64_t>("batch", batch, {.min = 1, .max = 1 << 20});
  return [=](std::int64_t step) {
    const auto size = static_cast<std::uint64_t>(set.images.size(0));
    const at::Tensor places = at::empty({batch}, at::kLong), mirror = at::empty({batch, 1, 1, 1}, at::kBool);
    for (std::int64_t index = 0; index < batch; ++index) {
      const auto number = static_cast<std::uint64_t>(step * batch + index);
      places.mutable_data_ptr<std::int64_t>()[index] =
          static_cast<std::int64_t>(KeyedOrder(size, seed, number / size).at(number % size));
      mirror.mutable_data_ptr<bool>()[index] =
          mirrored && NumberedDraws(seed, mirror_stream, number).with_probability(0.5);
    }
    const at::Tensor images = set.images.index_select(0, places);
    return LabelledImages{.images = at::where(mirror, images.flip({3}), images),
                          .labels = set.labels.index_select(0, places)};
  };
}

}  // namespace cogwheel::tasks::images
