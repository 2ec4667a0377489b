// Measures of generated images against references.
//
// In features of Inception-v3: fid, sfid, kid, precision and recall. In features of a classifier that was trained here:
// classifier_distance, a Fréchet distance too, but no FID: its values compare with those of the same classifier alone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/measure.h"
#include "cogwheel/tasks/images/measures/image_set.h"
#include "cogwheel/tasks/images/measures/kernel_distance.h"

namespace cogwheel::tasks::images {

struct ImageMeasureOptions {
  KernelDistanceOptions kernel = {};
  std::int64_t neighbour = 3;  // k of precision and recall
};

struct ImageMeasurement {
  runs::Measure measure;
  double value = 0;
  std::optional<double> deviation = {};  // of a kernel distance, over its subsets
};

struct ImageMeasurements {
  std::string features = {};  // what they are of: ImageFeatures::name
  std::string sample_name = {}, reference_name = {};
  std::int64_t samples = 0, references = 0;   // images; references 0 where a file of moments does not say
  std::vector<ImageMeasurement> values = {};  // in the order of image_measures()
  std::vector<std::string> warnings = {};     // a sentence each, without the full stop

  // A line for each value: "fid 12.346: 10000 images of run, against 50000 of cifar10, in features of Inception-v3, …".
  std::vector<std::string> lines() const;
};

// What can be measured in such features, in order.
const std::vector<runs::Measure>& image_measures(FeatureKind kind);

// Throws Error, which begins with `what`, where a set is of other features than these, of which there are `width` of an
// image: of another kind, weights or width.
void expect_features(const ImageFeatures& features, std::int64_t width, const ImageSet& set, std::string_view what);

// Measures generated images, in features of `features`, against references in the same features. What the references of
// a file do not allow is left out, and a warning says why; another warns of fewer images than features, whose
// covariance is singular: a Fréchet distance is then too large, and by more the fewer they are.
//
// Throws Error where the references are of other features: of another kind, weights or width.
ImageMeasurements measure_images(const ImageFeatures& features, const ImageSet& samples, const ImageSet& references,
                                 const ImageMeasureOptions& options = {});

}  // namespace cogwheel::tasks::images
