#include "cogwheel/tasks/images/measures/image_set.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/runs/foreign_file.h"
#include "cogwheel/tasks/images/measures/feature_classifier.h"
#include "cogwheel/tasks/images/measures/inception_network.h"

namespace cogwheel::tasks::images {
namespace {

const std::string format_of_sets = "image features";

std::string kind_name(FeatureKind kind) { return kind == FeatureKind::inception ? "inception" : "classifier"; }

std::string short_hash(const std::string& hash) { return hash.substr(0, 12); }

at::Tensor eight_bits(const at::Tensor& images) {
  return images.to(at::kFloat).add(1).mul_(127.5).round_().clamp_(0, 255).div_(127.5).sub_(1);
}

void expect_next(const at::Tensor& images, const at::Tensor& first, std::int64_t before, const std::string& what) {
  const bool fits = images.dim() == 4 && images.size(0) > 0 &&
                    (!first.defined() || images.sizes().slice(1) == first.sizes().slice(1));
  if (!fits)
    throw Error(expected_got(
        what,
        first.defined() ? "images of shape " + shape_text(first.sizes().slice(1)) : "[images, channels, height, width]",
        shape_text(images.sizes())));
  const at::Tensor finite = at::isfinite(images).flatten(1).all(1);
  if (!finite.all().item<bool>())
    throw Error(expected_got(
        what, "finite images",
        "NaN or infinity in image " + std::to_string(before + finite.to(at::kInt).argmin().item<std::int64_t>())));
}

using Tensors = std::map<std::string, at::Tensor>;

// The moments of two tensors of a file; none where neither is there.
std::optional<FeatureMoments> moments_at(const Tensors& tensors, const std::string& mean, const std::string& covariance,
                                         const std::filesystem::path& path) {
  const auto mean_found = tensors.find(mean), covariance_found = tensors.find(covariance);
  if (mean_found == tensors.end() && covariance_found == tensors.end()) return std::nullopt;
  for (const auto& [name, found] : {std::pair(mean, mean_found), std::pair(covariance, covariance_found)}) {
    if (found == tensors.end()) throw Error(expected_got(path.string(), mean + " and " + covariance, "no " + name));
    if (!found->second.is_floating_point() || !at::isfinite(found->second).all().item<bool>())
      throw Error(expected_got(path.string(), "finite numbers of a floating type in " + name, "others"));
  }
  FeatureMoments moments{
      .count = 0, .mean = mean_found->second.to(at::kDouble), .covariance = covariance_found->second.to(at::kDouble)};
  if (moments.mean.dim() != 1 || moments.mean.numel() == 0)
    throw Error(expected_got(path.string(), mean + " of shape [features]", shape_text(moments.mean.sizes())));
  const std::int64_t features = moments.mean.numel();
  if (moments.covariance.sizes() != at::IntArrayRef({features, features}))
    throw Error(expected_got(path.string(), covariance + " of shape " + shape_text(std::vector{features, features}),
                             shape_text(moments.covariance.sizes())));
  const double asymmetry = (moments.covariance - moments.covariance.t()).abs().max().item<double>();
  if (asymmetry > 1e-5 * moments.covariance.abs().max().item<double>())
    throw Error(expected_got(path.string(), "a symmetric " + covariance, "one that is not"));
  return moments;
}

void put_moments(Tensors& tensors, const std::string& prefix, const FeatureMoments& moments) {
  tensors[prefix + "mean"] = moments.mean;
  tensors[prefix + "covariance"] = moments.covariance;
}

}  // namespace

ImageFeatures inception_features(std::shared_ptr<const InceptionNetwork> network) {
  return {.kind = FeatureKind::inception,
          .name = "Inception-v3, SHA-256 " + short_hash(network->hash()),
          .sha256 = network->hash(),
          .compute = [network](const at::Tensor& images) {
            InceptionFeatures features = (*network)(images);
            return ImageFeatures::Batch{.pooled = std::move(features.pooled), .spatial = std::move(features.spatial)};
          }};
}

ImageFeatures classifier_features(std::shared_ptr<const FeatureClassifier> classifier) {
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "%.1f %%", 100 * classifier->accuracy());
  const std::string hash = classifier->hash();
  return {.kind = FeatureKind::classifier,
          .name = std::string("classifier of ") + accuracy + " accuracy on " +
                  std::to_string(classifier->held_out_images()) + " images, SHA-256 " + short_hash(hash),
          .sha256 = hash,
          .compute = [classifier](const at::Tensor& images) {
            return ImageFeatures::Batch{.pooled = classifier->features(images), .spatial = {}};
          }};
}

ImageSet image_set(const ImageFeatures& features, const ImageStream& images, const std::string& name) {
  const c10::NoGradGuard no_grad;
  FeatureStatistics pooled, spatial;
  std::vector<at::Tensor> kept;
  at::Tensor first;
  while (const std::optional<at::Tensor> batch = images()) {
    expect_next(*batch, first, pooled.count(), name);
    if (!first.defined()) first = *batch;
    const ImageFeatures::Batch found = features.compute(eight_bits(*batch));
    pooled.add(found.pooled);
    if (found.spatial.defined()) spatial.add(found.spatial);
    kept.push_back(found.pooled.to(at::kFloat));
  }
  if (pooled.count() < 2) throw Error(expected_got(name, "at least 2 images", std::to_string(pooled.count())));
  ImageSet set{.name = name,
               .pooled = pooled.moments(),
               .features = at::cat(kept),
               .kind = kind_name(features.kind),
               .sha256 = features.sha256};
  if (spatial.count() > 0) set.spatial = spatial.moments();
  return set;
}

void save_image_set(const ImageSet& set, const std::filesystem::path& path, bool with_features) {
  runs::SafeTensors file;
  put_moments(file.tensors, "", set.pooled);
  if (set.spatial) put_moments(file.tensors, "spatial_", *set.spatial);
  file.tensors["count"] = at::full({}, set.pooled.count, at::kLong);
  if (with_features && set.features.defined()) file.tensors["features"] = set.features;
  file.metadata = {{"format", format_of_sets}, {"kind", set.kind}, {"weights_sha256", set.sha256}};
  runs::save_safetensors(file, path);
}

ImageSet load_image_set(const std::filesystem::path& path) {
  const c10::NoGradGuard no_grad;
  const std::string converted = std::filesystem::path(path).replace_extension(".safetensors").string();
  const runs::SafeTensors file = runs::load_safetensors_or_say(
      path, "import numpy, safetensors.numpy as s; f = numpy.load('" + path.string() +
                "'); s.save_file({k: f[k] for k in ('mu', 'sigma', 'mu_s', 'sigma_s') if k in f}, '" + converted +
                "')");
  ImageSet set;
  set.name = path.filename().string();
  auto pooled = moments_at(file.tensors, "mean", "covariance", path);
  set.spatial = moments_at(file.tensors, "spatial_mean", "spatial_covariance", path);
  if (!pooled) pooled = moments_at(file.tensors, "mu", "sigma", path);
  if (!set.spatial) set.spatial = moments_at(file.tensors, "mu_s", "sigma_s", path);
  if (!pooled) throw Error(expected_got(path.string(), "mean and covariance, or mu and sigma", "neither"));
  set.pooled = *pooled;
  if (const auto count = file.tensors.find("count"); count != file.tensors.end()) {
    if (count->second.numel() != 1 || count->second.is_floating_point() || count->second.item<std::int64_t>() < 2)
      throw Error(expected_got(path.string(), "a count of at least 2 images", "another"));
    set.pooled.count = count->second.item<std::int64_t>();
    if (set.spatial) set.spatial->count = set.pooled.count;
  }
  if (const auto features = file.tensors.find("features"); features != file.tensors.end()) {
    set.features = features->second;
    if (set.features.dim() != 2 || set.features.size(1) != set.pooled.mean.numel() ||
        set.features.size(0) != set.pooled.count)
      throw Error(expected_got(
          path.string(), "features of shape " + shape_text(std::vector{set.pooled.count, set.pooled.mean.numel()}),
          shape_text(set.features.sizes())));
    if (!at::isfinite(set.features).all().item<bool>())
      throw Error(expected_got(path.string(), "finite features", "NaN or infinity"));
  }
  const auto entry = [&](const std::string& key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  set.kind = entry("kind"), set.sha256 = entry("weights_sha256");
  return set;
}

}  // namespace cogwheel::tasks::images
