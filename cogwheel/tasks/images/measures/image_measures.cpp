#include "cogwheel/tasks/images/measures/image_measures.h"

#include <algorithm>
#include <cstdio>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/tasks/images/measures/frechet_distance.h"
#include "cogwheel/tasks/images/measures/precision_recall.h"

namespace cogwheel::tasks::images {
namespace {

// Negative eigenvalues beyond this share of the largest are not the rounding of float32.
constexpr double float32_rounding = 1e-5;

class Measuring {
 public:
  Measuring(const ImageFeatures& features, const ImageSet& samples, const ImageSet& references)
      : features_(features), samples_(samples), references_(references) {
    found_.features = features.name;
    found_.sample_name = samples.name, found_.reference_name = references.name;
    found_.samples = samples.pooled.count;
    found_.references = references.pooled.count;
  }

  void distance(const std::string& name, const FeatureMoments& samples, const FeatureMoments& references) {
    const std::int64_t width = samples.mean.numel();
    warn_of_few("samples", samples.count, width, name);
    if (references.count > 0) warn_of_few("references", references.count, width, name);
    const FrechetDistance distance = frechet_distance(samples, references);
    if (distance.most_negative < -float32_rounding)
      found_.warnings.push_back(name + ": a covariance has eigenvalues down to " + number_text(distance.most_negative) +
                                " of its largest, more than rounding gives; they count as 0");
    add(name, distance.value);
  }

  void neighbours(const ImageMeasureOptions& options) {
    if (!references_.features.defined()) {
      found_.warnings.push_back(
          "kid, precision and recall are left out: they need the features of each reference, and "
          "the file of references has a mean and a covariance alone");
      return;
    }
    const KernelDistance kernel = kernel_distance(samples_.features, references_.features, options.kernel);
    if (kernel.subset_size < options.kernel.subset_size)
      found_.warnings.push_back("kid: subsets of all " + std::to_string(kernel.subset_size) +
                                " images of the smaller set: " + std::to_string(options.kernel.subset_size) +
                                " were wanted");
    add("kid", kernel.mean, kernel.deviation);
    if (std::min(found_.samples, found_.references) <= options.neighbour) {
      found_.warnings.push_back("precision and recall are left out: they need more than " +
                                std::to_string(options.neighbour) + " images of each set");
      return;
    }
    const PrecisionRecall shares = precision_recall(samples_.features, references_.features, options.neighbour);
    add("precision", shares.precision);
    add("recall", shares.recall);
  }

  void leave_out(const std::string& warning) { found_.warnings.push_back(warning); }
  ImageMeasurements take() { return std::move(found_); }

 private:
  void warn_of_few(const std::string& what, std::int64_t count, std::int64_t width, const std::string& name) {
    if (count < width)
      found_.warnings.push_back(
          name + ": fewer " + what + " than features: " + std::to_string(count) + " < " + std::to_string(width) +
          ": their covariance is singular, and the distance too large, by more the fewer they are");
  }

  void add(const std::string& name, double value, std::optional<double> deviation = std::nullopt) {
    for (const runs::Measure& measure : image_measures(features_.kind))
      if (measure.name == name) found_.values.push_back({.measure = measure, .value = value, .deviation = deviation});
  }

  const ImageFeatures& features_;
  const ImageSet &samples_, &references_;
  ImageMeasurements found_;
};

}  // namespace

void expect_features(const ImageFeatures& features, std::int64_t width, const ImageSet& set, std::string_view what) {
  const std::string kind = features.kind == FeatureKind::inception ? "inception" : "classifier";
  if (!set.kind.empty() && set.kind != kind) throw Error(expected_got(what, "features of kind " + kind, set.kind));
  if (!set.sha256.empty() && set.sha256 != features.sha256)
    throw Error(expected_got(what, "features of the weights of SHA-256 " + features.sha256, set.sha256));
  if (set.pooled.mean.numel() != width)
    throw Error(expected_got(what, std::to_string(width) + " features, as of the samples",
                             std::to_string(set.pooled.mean.numel())));
}

const std::vector<runs::Measure>& image_measures(FeatureKind kind) {
  const auto measure = [](const char* name, const char* title, bool lower_is_better, std::optional<double> min = 0) {
    return runs::Measure{.name = name,
                         .title = title,
                         .label = name,
                         .unit = "",
                         .lower_is_better = lower_is_better,
                         .min = min,
                         .at_end_only = true};
  };
  static const std::vector<runs::Measure> of_inception{
      measure("fid", "Fréchet Inception distance", true), measure("sfid", "spatial Fréchet Inception distance", true),
      // An estimate without bias, so that of equal distributions as many are below 0 as above.
      measure("kid", "kernel Inception distance", true, std::nullopt), measure("precision", "precision", false),
      measure("recall", "recall", false)};
  static const std::vector<runs::Measure> of_classifier{measure("classifier_distance", "classifier distance", true)};
  return kind == FeatureKind::inception ? of_inception : of_classifier;
}

ImageMeasurements measure_images(const ImageFeatures& features, const ImageSet& samples, const ImageSet& references,
                                 const ImageMeasureOptions& options) {
  const std::int64_t width = samples.pooled.mean.numel();
  expect_features(features, width, samples, "samples");
  expect_features(features, width, references, "references");
  Measuring measuring(features, samples, references);
  if (features.kind == FeatureKind::classifier) {
    measuring.distance("classifier_distance", samples.pooled, references.pooled);
    return measuring.take();
  }
  measuring.distance("fid", samples.pooled, references.pooled);
  if (samples.spatial && references.spatial)
    measuring.distance("sfid", *samples.spatial, *references.spatial);
  else
    measuring.leave_out("sfid is left out: the file of references has no spatial features");
  measuring.neighbours(options);
  return measuring.take();
}

std::vector<std::string> ImageMeasurements::lines() const {
  const auto rounded = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.5g", value);
    return std::string(text);
  };
  std::vector<std::string> all;
  for (const ImageMeasurement& each : values)
    all.push_back(each.measure.name + " " + rounded(each.value) +
                  (each.deviation ? " ± " + rounded(*each.deviation) : "") + ": " + std::to_string(samples) +
                  " images of " + sample_name + ", against " +
                  (references > 0 ? std::to_string(references) : "an unknown number") + " of " + reference_name +
                  ", in features of " + features);
  return all;
}

}  // namespace cogwheel::tasks::images
