// A small convolutional classifier, trained here, whose features measure images where there are no weights of an
// Inception network. It has no attention, so that it favours no mechanism.
//
// Four convolutions of 3×3 with 32, 64, 128 and 128 channels, the first and the third in steps of 2, each normalised
// over the batch (Ioffe and Szegedy 2015) and rectified; the features are the means over all places of the last, and
// one product with them gives the logits.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "cogwheel/runs/safetensors.h"

namespace cogwheel::tasks::images {

struct LabelledImages {
  at::Tensor images;  // [images, channels, H, W], float32 in [−1, 1]
  at::Tensor labels;  // [images], int64 from 0
};

struct ClassifierTraining {
  std::int64_t steps = 1500;
  double learning_rate = 3e-3;  // the highest: warm-up, then half a cosine to 0
  double weight_decay = 0.05;
  std::uint64_t seed = 1;  // of the initial weights
};

class FeatureClassifier {
 public:
  static constexpr std::int64_t width = 128;  // of the features

  // Initial weights follow from the seed. Throws UsageError for fewer than 1 channel or 2 classes.
  FeatureClassifier(std::int64_t channels, std::int64_t classes, std::uint64_t seed);

  // Trained with AdamW on batch(0), batch(1), … and measured on `held_out`. The same arguments give the same bits on
  // the same machine with the same number of threads. Throws Error where the loss is no longer finite or a batch does
  // not fit.
  static FeatureClassifier trained(std::int64_t channels, std::int64_t classes, const ClassifierTraining& training,
                                   const std::function<LabelledImages(std::int64_t step)>& batch,
                                   const LabelledImages& held_out);

  // Throws Error where the file is damaged, is no classifier, or lacks a tensor, which it names.
  static FeatureClassifier load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  // [images, 128], without gradients. Computed 256 images at a time.
  at::Tensor features(const at::Tensor& images) const;
  // The most likely class of each image: [images], int64.
  at::Tensor classes_of(const at::Tensor& images) const;
  // Share of the images whose class is right.
  double accuracy_on(const LabelledImages& images) const;

  std::int64_t channels() const { return channels_; }
  std::int64_t classes() const { return classes_; }
  std::int64_t parameters() const;
  // What training measured on held-out images, and on how many; 0 before.
  double accuracy() const { return accuracy_; }
  std::int64_t held_out_images() const { return held_out_images_; }
  // SHA-256 of weights, statistics and accuracy (runs/safetensors.h).
  std::string hash() const { return runs::sha256(contents()); }

 private:
  // [images, classes]: gradients flow, and images are normalised by their own statistics, which also move the running
  // ones.
  at::Tensor training_logits(const at::Tensor& images) const;
  runs::SafeTensors contents() const;
  at::Tensor means_of_last(const at::Tensor& images, bool training) const;

  std::int64_t channels_, classes_;
  std::map<std::string, at::Tensor> weights_, statistics_;  // learned; running means and variances
  double accuracy_ = 0;
  std::int64_t held_out_images_ = 0;
};

// Batches of a set: all of it in a new order in each epoch, and each image mirrored with probability ½ where
// `mirrored`. Step, seed and set alone decide a batch.
std::function<LabelledImages(std::int64_t step)> shuffled_batches(const LabelledImages& set, std::int64_t batch,
                                                                  std::uint64_t seed, bool mirrored);

}  // namespace cogwheel::tasks::images
