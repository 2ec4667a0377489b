#include "cogwheel/tasks/images/measures/image_measures.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/tasks/images/measures/feature_classifier.h"
#include "cogwheel/tasks/images/measures/frechet_distance.h"
#include "cogwheel/tasks/images/measures/precision_recall.h"
#include "support/error_of.h"

namespace cogwheel::tasks::images::image_measures_test {
namespace {

// The pixels themselves, and of an Inception network's kind the first three as spatial features.
ImageFeatures pixels(FeatureKind kind) {
  return {.kind = kind, .name = "pixels", .sha256 = "abc", .compute = [kind](const at::Tensor& images) {
            const at::Tensor flat = images.flatten(1);
            return ImageFeatures::Batch{
                .pooled = flat, .spatial = kind == FeatureKind::inception ? flat.narrow(1, 0, 3) : at::Tensor()};
          }};
}

// In eight bits already, on [−1, 1].
at::Tensor drawn(std::int64_t count, std::uint64_t seed, int brightest = 255) {
  torch::manual_seed(seed);
  return torch::randint(brightest + 1, {count, 2, 2, 2}, at::kFloat) / 127.5 - 1;
}

ImageStream stream(const at::Tensor& images, std::int64_t batch = 7) {
  return [=, next = std::int64_t{0}]() mutable -> std::optional<at::Tensor> {
    if (next >= images.size(0)) return std::nullopt;
    const std::int64_t first = std::exchange(next, next + batch);
    return images.narrow(0, first, std::min(batch, images.size(0) - first));
  };
}

ImageSet set_of(FeatureKind kind, const at::Tensor& images) {
  return image_set(pixels(kind), stream(images), "images");
}

std::vector<std::string> names(const ImageMeasurements& found) {
  std::vector<std::string> all;
  for (const auto& each : found.values) all.push_back(each.measure.name);
  return all;
}

using Names = std::vector<std::string>;

std::filesystem::path temporary(const char* name) {
  return std::filesystem::temp_directory_path() / ("cogwheel-" + std::to_string(::getpid()) + "-" + name);
}

TEST(ImageMeasures, OfInceptionAreFive) {
  const ImageSet samples = set_of(FeatureKind::inception, drawn(40, 1, 200));
  const ImageSet references = set_of(FeatureKind::inception, drawn(50, 2));
  const ImageMeasurements found = measure_images(pixels(FeatureKind::inception), samples, references,
                                                 {.kernel = {.subsets = 10, .subset_size = 20}});
  ASSERT_EQ(names(found), (Names{"fid", "sfid", "kid", "precision", "recall"}));
  EXPECT_EQ(found.samples, 40);
  EXPECT_EQ(found.references, 50);
  EXPECT_TRUE(found.warnings.empty()) << found.warnings.front();
  EXPECT_EQ(found.values[0].value, frechet_distance(samples.pooled, references.pooled).value);
  EXPECT_EQ(found.values[1].value, frechet_distance(*samples.spatial, *references.spatial).value);
  EXPECT_EQ(found.values[2].value,
            kernel_distance(samples.features, references.features, {.subsets = 10, .subset_size = 20}).mean);
  EXPECT_GT(found.values[2].deviation.value(), 0);
  EXPECT_EQ(found.values[3].value, precision_recall(samples.features, references.features).precision);
  EXPECT_EQ(found.values[4].value, precision_recall(samples.features, references.features).recall);
  for (const auto& each : found.values) {
    EXPECT_EQ(each.measure.lower_is_better, each.measure.name != "precision" && each.measure.name != "recall");
    EXPECT_EQ(each.deviation.has_value(), each.measure.name == "kid");
  }
  const std::string first = found.lines().front();
  EXPECT_TRUE(first.starts_with("fid ")) << first;
  EXPECT_TRUE(first.ends_with(": 40 images of images, against 50 of images, in features of pixels")) << first;
}

TEST(ImageMeasures, OfAClassifierIsADistanceThatIsNotCalledFid) {
  const auto classifier = std::make_shared<const FeatureClassifier>(2, 3, /*seed=*/1);
  const ImageFeatures features = classifier_features(classifier);
  EXPECT_EQ(features.name, "classifier of 0.0 % accuracy on 0 images, SHA-256 " + classifier->hash().substr(0, 12));
  const ImageMeasurements found = measure_images(features, image_set(features, stream(drawn(140, 1, 200)), "samples"),
                                                 image_set(features, stream(drawn(100, 2)), "references"));
  ASSERT_EQ(names(found), Names{"classifier_distance"});
  EXPECT_GT(found.values.front().value, 0);
  EXPECT_EQ(found.lines().front().find("fid"), std::string::npos);
  EXPECT_EQ(
      found.warnings,
      Names{"classifier_distance: fewer references than features: 100 < 128: their covariance is singular, and the "
            "distance too large, by more the fewer they are"});
}

TEST(ImageMeasures, WarnOfFewSamples) {
  const ImageMeasurements found =
      measure_images(pixels(FeatureKind::inception), set_of(FeatureKind::inception, drawn(3, 1)),
                     set_of(FeatureKind::inception, drawn(20, 2)));
  EXPECT_EQ(names(found), (Names{"fid", "sfid", "kid"}));
  EXPECT_EQ(
      found.warnings,
      (Names{"fid: fewer samples than features: 3 < 8: their covariance is singular, and the distance too large, by "
             "more the fewer they are",
             "kid: subsets of all 3 images of the smaller set: 1000 were wanted",
             "precision and recall are left out: they need more than 3 images of each set"}));
}

TEST(ImageMeasures, SeeImagesInEightBits) {
  const at::Tensor images = drawn(30, 3);
  torch::manual_seed(1);
  const at::Tensor blurred = images + (torch::rand(images.sizes()) - 0.5) * 0.99 / 127.5;
  EXPECT_TRUE(at::allclose(set_of(FeatureKind::inception, blurred).features, images.flatten(1), 0, 1e-6));
  const at::Tensor loud = at::where(images > 0, images + 5, images);
  EXPECT_TRUE(at::allclose(set_of(FeatureKind::inception, loud).features,
                           at::where(images > 0, 1.0, images).to(at::kFloat).flatten(1), 0, 1e-6));
}

TEST(ImageMeasures, ReferencesAreReadAsTheyWereWritten) {
  const auto path = temporary("references");
  const ImageSet references = set_of(FeatureKind::inception, drawn(50, 2));
  const ImageSet samples = set_of(FeatureKind::inception, drawn(40, 1, 200));
  const ImageFeatures features = pixels(FeatureKind::inception);
  save_image_set(references, path, /*with_features=*/true);
  const ImageMeasurements found = measure_images(features, samples, load_image_set(path));
  const ImageMeasurements expected = measure_images(features, samples, references);
  ASSERT_EQ(names(found), names(expected));
  for (std::size_t index = 0; index < found.values.size(); ++index)
    EXPECT_EQ(found.values[index].value, expected.values[index].value) << found.values[index].measure.name;
  EXPECT_EQ(found.references, 50);

  save_image_set(references, path, /*with_features=*/false);
  const ImageMeasurements fewer = measure_images(features, samples, load_image_set(path));
  EXPECT_EQ(names(fewer), (Names{"fid", "sfid"}));
  EXPECT_EQ(fewer.warnings,
            Names{"kid, precision and recall are left out: they need the features of each reference, and "
                  "the file of references has a mean and a covariance alone"});

  ImageFeatures other = features;
  other.sha256 = "def";
  EXPECT_EQ(error_of([&] { measure_images(other, samples, references); }),
            "samples: expected features of the weights of SHA-256 def, got abc");
  EXPECT_EQ(error_of([&] {
              measure_images(pixels(FeatureKind::classifier), set_of(FeatureKind::classifier, drawn(9, 1)),
                             load_image_set(path));
            }),
            "references: expected features of kind classifier, got inception");
  std::filesystem::remove(path);
}

TEST(ImageMeasures, ReferencesMayHaveTheNamesOfPytorchFid) {
  const auto path = temporary("references");
  const ImageSet references = set_of(FeatureKind::inception, drawn(50, 2));
  const ImageSet samples = set_of(FeatureKind::inception, drawn(40, 1, 200));
  runs::SafeTensors file;
  file.tensors = {{"mu", references.pooled.mean}, {"sigma", references.pooled.covariance}};
  const auto measured = [&] {
    runs::save_safetensors(file, path);
    return measure_images(pixels(FeatureKind::inception), samples, load_image_set(path));
  };
  const ImageMeasurements found = measured();
  ASSERT_EQ(names(found), Names{"fid"});
  EXPECT_EQ(found.values.front().value, frechet_distance(samples.pooled, references.pooled).value);
  EXPECT_EQ(found.references, 0);
  EXPECT_TRUE(found.lines().front().find(", against an unknown number of cogwheel-") != std::string::npos);
  EXPECT_EQ(found.warnings.front(), "sfid is left out: the file of references has no spatial features");
  file.tensors["mu_s"] = references.spatial->mean, file.tensors["sigma_s"] = references.spatial->covariance;
  EXPECT_EQ(names(measured()), (Names{"fid", "sfid"}));

  const auto error = [&] {
    runs::save_safetensors(file, path);
    return error_of([&] { load_image_set(path); }).substr(path.string().size() + 2);
  };
  file.tensors["count"] = torch::tensor(1, at::kLong);
  EXPECT_EQ(error(), "expected a count of at least 2 images, got another");
  file.tensors["sigma"] = references.pooled.covariance.narrow(0, 0, 5);
  EXPECT_EQ(error(), "expected sigma of shape [8, 8], got [5, 8]");
  file.tensors["sigma"] = references.pooled.covariance.triu();
  EXPECT_EQ(error(), "expected a symmetric sigma, got one that is not");
  file.tensors.erase("sigma");
  EXPECT_EQ(error(), "expected mu and sigma, got no sigma");
  file.tensors.erase("mu");
  EXPECT_EQ(error(), "expected mean and covariance, or mu and sigma, got neither");
  write_file(path, "PK\x03\x04 and the rest");
  EXPECT_NE(error_of([&] {
              load_image_set(path);
            }).find("; to convert it, with the package safetensors: python3 -c \"import numpy, safetensors.numpy"),
            std::string::npos);
  std::filesystem::remove(path);
}

TEST(ImageMeasures, RefuseImagesThatDoNotFit) {
  const auto error = [](std::vector<at::Tensor> batches) {
    ImageStream images = [batches, next = std::size_t{0}]() mutable -> std::optional<at::Tensor> {
      return next < batches.size() ? std::optional(batches[next++]) : std::nullopt;
    };
    return error_of([&] { image_set(pixels(FeatureKind::inception), images, "samples"); });
  };
  EXPECT_EQ(error({}), "samples: expected at least 2 images, got 0");
  EXPECT_EQ(error({drawn(1, 1)}), "samples: expected at least 2 images, got 1");
  EXPECT_EQ(error({drawn(4, 1), torch::zeros({2, 2, 3, 2})}),
            "samples: expected images of shape [2, 2, 2], got [2, 2, 3, 2]");
  EXPECT_EQ(error({torch::zeros({2, 2})}), "samples: expected [images, channels, height, width], got [2, 2]");
  at::Tensor broken = drawn(4, 1);
  broken[2][0][0][0] = NAN;
  EXPECT_EQ(error({drawn(3, 2), broken}), "samples: expected finite images, got NaN or infinity in image 5");
}

}  // namespace
}  // namespace cogwheel::tasks::images::image_measures_test
