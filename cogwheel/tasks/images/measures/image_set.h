// What generated images are measured by: features of images, and what is kept of a set of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cogwheel/tasks/images/measures/feature_statistics.h"

namespace cogwheel::tasks::images {

class FeatureClassifier;
class InceptionNetwork;

enum class FeatureKind { inception, classifier };

// A function of images, and what it is called where a distance in its features is reported.
struct ImageFeatures {
  struct Batch {
    at::Tensor pooled;   // [images, features]
    at::Tensor spatial;  // [images, spatial features]; undefined where the kind has none
  };

  FeatureKind kind = FeatureKind::classifier;
  std::string name = {};    // "classifier of 63.1 % accuracy on 2000 images, SHA-256 0f1e2d3c4b5a"
  std::string sha256 = {};  // of its weights: features of other weights cannot be compared
  std::function<Batch(const at::Tensor& images)> compute = {};  // images [B, C, H, W] in [−1, 1]
};

ImageFeatures inception_features(std::shared_ptr<const InceptionNetwork> network);
ImageFeatures classifier_features(std::shared_ptr<const FeatureClassifier> classifier);

// The next images [B, C, H, W] in [−1, 1], and none at the end. C, H and W are the same in every batch.
using ImageStream = std::function<std::optional<at::Tensor>()>;

// Features of all images of a stream and their moments.
struct ImageSet {
  std::string name = {};  // what the images are, as results show it: "samples", "cifar10, train"; a file's name
  FeatureMoments pooled = {};
  std::optional<FeatureMoments> spatial = {};
  at::Tensor features = {};  // [images, features], float32; undefined where a file has moments alone
  std::string kind = {};     // "inception" or "classifier"; "" where a file does not say
  std::string sha256 = {};   // of the weights that gave the features; "" where a file does not say
};

// Images are rounded to 8 bits first, as files hold them: references are files, and what only a float can hold must not
// tell samples apart from them. `name` is that of the set, also in errors. Throws Error for fewer than two images,
// shapes that differ, and images that are not finite.
ImageSet image_set(const ImageFeatures& features, const ImageStream& images, const std::string& name);

// A safetensors file with `mean` [features], `covariance` [features, features] and `count` [], `spatial_mean` and
// `spatial_covariance` where there are any, and `features`, if those are wanted: kernel distance, precision and recall
// need them.
void save_image_set(const ImageSet& set, const std::filesystem::path& path, bool with_features);

// Reads such a file, or one with the names of pytorch-fid and ADM: `mu` and `sigma`, `mu_s` and `sigma_s` (spatial).
// Throws Error that names what is missing or ill-shaped; for a NumPy archive, with the line that converts it.
ImageSet load_image_set(const std::filesystem::path& path);

}  // namespace cogwheel::tasks::images
