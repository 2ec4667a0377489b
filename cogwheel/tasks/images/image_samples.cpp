#include "cogwheel/tasks/images/image_samples.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/tasks/images/data/image_batches.h"
#include "cogwheel/tasks/images/measures/feature_classifier.h"
#include "cogwheel/tasks/images/measures/image_measures.h"
#include "cogwheel/tasks/images/measures/inception_network.h"

namespace cogwheel::tasks::images {
namespace {

constexpr std::int64_t measured_together = 256, most_references = 50'000;

std::int64_t count_of(const ImageSource& source, ImagePart part) { return source.images(part); }

// All images of a part, up to `most`.
ImageStream stream_of(const ImageSource& source, ImagePart part, std::int64_t most) {
  const std::int64_t all = std::min(most, count_of(source, part));
  return [&source, part, all, first = std::int64_t{0}]() mutable -> std::optional<at::Tensor> {
    if (first >= all) return std::nullopt;
    const ImageBatch some = images_in_order(source, part, first, std::min(measured_together, all - first));
    first += some.images.size(0);
    return some.images;
  };
}

std::shared_ptr<const FeatureClassifier> trained_classifier(const ImageSource& source,
                                                            const runs::ThoroughInspection& options) {
  if (source.class_names().empty())
    throw Error(
        expected_got("evaluate: --inception", "weights of an Inception network, for images without labels", "none"));
  const std::filesystem::path kept = options.folder / runs::classifier_file;
  std::error_code problem;
  if (!options.classifier_steps && std::filesystem::exists(kept, problem))
    return std::make_shared<const FeatureClassifier>(FeatureClassifier::load(kept));
  expect_writable(kept);
  options.progress("training a classifier for its features");
  const ImageBatch held_out = images_in_order(source, ImagePart::held_out, 0, 2000);
  const std::shared_ptr<const ImageSource> borrowed(&source, [](const ImageSource*) {});
  ImageBatches batches(borrowed, 1, {.batch = 64, .augmentation = {.flip = true}});
  const auto batch = [&](std::int64_t step) -> LabelledImages {
    const ImageBatch drawn = batches.at_step(step);
    return {drawn.images, drawn.labels};
  };
  auto classifier = std::make_shared<FeatureClassifier>(FeatureClassifier::trained(
      source.channels(), std::ssize(source.class_names()), {.steps = options.classifier_steps.value_or(1500)}, batch,
      {held_out.images, held_out.labels}));
  classifier->save(kept);
  return classifier;
}

}  // namespace

SampleMeasures sample_measures(const ImageSource& source, const ImageStream& samples, const std::string& how,
                               const runs::ThoroughInspection& options) {
  // What was given is read before anything takes long.
  const std::optional<ImageSet> given =
      options.references.empty() ? std::nullopt : std::optional(load_image_set(options.references));
  const ImageFeatures features = options.inception.empty()
                                     ? classifier_features(trained_classifier(source, options))
                                     : inception_features(std::make_shared<const InceptionNetwork>(options.inception));
  const ImagePart part = count_of(source, ImagePart::training) > 0 ? ImagePart::training : ImagePart::held_out;
  if (given) {
    const at::Tensor one = features.compute(*stream_of(source, part, 1)()).pooled;
    expect_features(features, one.size(1), *given, options.references.string());
  }
  options.progress("drawing images");
  const ImageSet drawn = image_set(features, samples, "drawn images");
  options.progress("measuring");
  const ImageSet references =
      given ? *given : image_set(features, stream_of(source, part, most_references), source.name());
  const ImageMeasurements measured = measure_images(features, drawn, references);
  const std::string from = options.references.empty() ? source.name() : options.references.filename().string();
  SampleMeasures found{.table = {"Drawn images as a whole, " + how,
                                 {"measure", "value", "better", "samples", "references", "features"},
                                 {}}};
  pages::TextTable& table = found.table;
  for (const ImageMeasurement& each : measured.values) {
    found.values.push_back({each.measure.name, each.value});
    table.rows.push_back({each.measure.title,
                          each.deviation ? fmt::format("{:.4g} ± {:.2g}", each.value, *each.deviation)
                                         : fmt::format("{:.4g}", each.value),
                          each.measure.lower_is_better ? "lower" : "higher", std::to_string(measured.samples),
                          measured.references > 0 ? fmt::format("{} of {}", measured.references, from)
                                                  : fmt::format("an unknown number, of {}", from),
                          measured.features});
  }
  for (const std::string& warning : measured.warnings) table.rows.push_back({"warning", warning, "", "", "", ""});
  return found;
}

}  // namespace cogwheel::tasks::images
