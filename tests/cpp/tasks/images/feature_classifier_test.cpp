#include "cogwheel/tasks/images/measures/feature_classifier.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>

#include "cogwheel/core/files/atomic_file.h"
#include "support/error_of.h"

namespace cogwheel::tasks::images::feature_classifier_test {
namespace {

// Grey images of noise with faint stripes: upright in class 0, level in class 1, oblique in class 2.
LabelledImages stripes(std::int64_t count, std::uint64_t seed) {
  torch::manual_seed(seed);
  const at::Tensor labels = torch::randint(3, {count}, at::kLong), phase = torch::rand({count, 1, 1}) * 6.28;
  const at::Tensor x = torch::arange(12).view({1, 1, 12}) * 1.5, y = torch::arange(12).view({1, 12, 1}) * 1.5;
  const at::Tensor kind = labels.view({count, 1, 1});
  const at::Tensor angle = at::where(kind == 0, x, at::where(kind == 1, y, (x + y) / 1.5)) + phase;
  const at::Tensor images = at::sin(angle) * 0.4 + torch::randn({count, 12, 12}) * 0.3;
  return {.images = images.unsqueeze(1).clamp(-1, 1), .labels = labels};
}

FeatureClassifier trained(std::uint64_t seed) {
  const LabelledImages set = stripes(400, 1);
  return FeatureClassifier::trained(1, 3, {.steps = 40, .seed = seed}, shuffled_batches(set, 32, seed, false),
                                    stripes(300, 2));
}

const FeatureClassifier& first_trained() {
  static const FeatureClassifier classifier = trained(1);
  return classifier;
}

TEST(FeatureClassifier, LearnsWhatItHasNotSeenAndIsTheSameAgain) {
  const FeatureClassifier& classifier = first_trained();
  EXPECT_GT(classifier.accuracy(), 0.9);
  EXPECT_EQ(classifier.held_out_images(), 300);
  EXPECT_EQ(classifier.accuracy(), classifier.accuracy_on(stripes(300, 2)));
  EXPECT_LT(FeatureClassifier(1, 3, 1).accuracy_on(stripes(300, 2)), 0.7);
  EXPECT_EQ(classifier.hash(), trained(1).hash());
  EXPECT_NE(classifier.hash(), trained(2).hash());
}

TEST(FeatureClassifier, FeaturesAreOfEachImageAlone) {
  const FeatureClassifier& classifier = first_trained();
  const at::Tensor images = stripes(300, 3).images;  // more than one pass
  const at::Tensor features = classifier.features(images);
  EXPECT_EQ(features.sizes(), at::IntArrayRef({300, FeatureClassifier::width}));
  EXPECT_FALSE(features.requires_grad());
  EXPECT_TRUE(at::allclose(classifier.features(images.slice(0, 290, 293)), features.slice(0, 290, 293), 1e-5, 1e-6));
  EXPECT_GT(features.std(0).max().item<double>(), 0.1);
}

TEST(FeatureClassifier, HasAFewHundredThousandParameters) {
  const std::int64_t convolutions = 9 * (3 * 32 + 32 * 64 + 64 * 128 + 128 * 128), norms = 2 * (32 + 64 + 128 + 128);
  EXPECT_EQ(FeatureClassifier(3, 10, 1).parameters(), convolutions + norms + 128 * 10 + 10);
}

TEST(FeatureClassifier, IsReadAsItWasWritten) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("cogwheel-classifier-" + std::to_string(::getpid()));
  const FeatureClassifier& classifier = first_trained();
  classifier.save(path);
  const FeatureClassifier loaded = FeatureClassifier::load(path);
  EXPECT_EQ(loaded.hash(), classifier.hash());
  EXPECT_EQ(loaded.accuracy(), classifier.accuracy());
  EXPECT_EQ(loaded.held_out_images(), 300);
  const at::Tensor images = stripes(20, 4).images;
  EXPECT_TRUE(at::equal(loaded.features(images), classifier.features(images)));
  EXPECT_TRUE(at::equal(loaded.classes_of(images), classifier.classes_of(images)));

  std::string bytes = read_file(path);
  bytes[bytes.size() - 100] ^= 1;
  write_file(path, bytes);
  EXPECT_NE(error_of([&] { FeatureClassifier::load(path); }).find("got others: the file is damaged"),
            std::string::npos);
  runs::SafeTensors other;
  other.tensors["mean"] = torch::zeros({3});
  runs::save_safetensors(other, path);
  EXPECT_EQ(error_of([&] { FeatureClassifier::load(path); }),
            path.string() + ": expected a feature classifier, got another safetensors file");
  std::filesystem::remove(path);
}

TEST(FeatureClassifier, RefusesWhatItCannotLearn) {
  const auto train_on = [](const LabelledImages& batch, double learning_rate = 1e-3) {
    return error_of([&] {
      FeatureClassifier::trained(
          1, 3, {.steps = 20, .learning_rate = learning_rate}, [&](std::int64_t) { return batch; }, stripes(10, 2));
    });
  };
  const LabelledImages good = stripes(8, 1);
  EXPECT_EQ(train_on({.images = good.images.repeat({1, 3, 1, 1}), .labels = good.labels}),
            "images: expected [images, 1 channels, height, width], got [8, 3, 12, 12]");
  EXPECT_EQ(train_on({.images = good.images, .labels = good.labels + 1}), "labels: expected 0 to 2, got 3");
  EXPECT_EQ(train_on({.images = good.images, .labels = good.labels.slice(0, 1)}),
            "labels: expected one for each of 8 images, got [7]");
  EXPECT_EQ(train_on({.images = good.images * NAN, .labels = good.labels}),
            "classifier: loss of step 1: expected a finite number, got nan");
  EXPECT_THROW(FeatureClassifier(1, 1, 1), UsageError);
}

TEST(FeatureClassifier, BatchesGoThroughTheSetAndMirrorHalfOfIt) {
  const at::Tensor images = torch::arange(10.0f).view({10, 1, 1, 1}) + torch::tensor({0.0f, 0.5f});
  const LabelledImages set{.images = images, .labels = torch::arange(10)};
  const auto batches = shuffled_batches(set, 4, 3, true);
  std::multiset<std::int64_t> seen;
  int mirrored = 0;
  for (std::int64_t step = 0; step < 50; ++step) {
    const LabelledImages batch = batches(step);
    ASSERT_EQ(batch.images.sizes(), at::IntArrayRef({4, 1, 1, 2}));
    for (std::int64_t index = 0; index < 4; ++index) {
      const auto label = batch.labels[index].item<std::int64_t>();
      seen.insert(label);
      const double left = batch.images[index][0][0][0].item<double>(),
                   right = batch.images[index][0][0][1].item<double>();
      EXPECT_EQ(std::min(left, right), static_cast<double>(label));
      EXPECT_EQ(std::abs(left - right), 0.5);
      mirrored += left > right;
    }
  }
  for (std::int64_t label = 0; label < 10; ++label) EXPECT_EQ(seen.count(label), 20U);
  EXPECT_GT(mirrored, 70);
  EXPECT_LT(mirrored, 130);
  EXPECT_TRUE(at::equal(batches(7).images, shuffled_batches(set, 4, 3, true)(7).images));
  EXPECT_FALSE(at::equal(batches(7).labels, shuffled_batches(set, 4, 4, true)(7).labels));
}

}  // namespace
}  // namespace cogwheel::tasks::images::feature_classifier_test
