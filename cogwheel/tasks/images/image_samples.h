// How near the images that a model draws are to those that it learned from.
#pragma once
#include <cstdint>
#include <functional>

#include "cogwheel/pages/exhibits.h"
#include "cogwheel/runs/inspection.h"
#include "cogwheel/tasks/images/data/image_source.h"
#include "cogwheel/tasks/images/measures/image_set.h"

namespace cogwheel::tasks::images {

struct SampleMeasures {
  pages::TextTable table;
  runs::MeasuredValues values = {};
};

// The measures of tasks/images/measures/image_measures.h: in features of the given Inception network, or of
// a small classifier that is trained on the source's labelled images and kept as classifier.safetensors in the folder,
// where it is found again. References are the source's training images, held-out ones where it draws without end, or
// those of a file. `how` says how samples are drawn, for the title. Throws Error for a source without labels and no
// Inception network.
SampleMeasures sample_measures(const ImageSource& source, const ImageStream& samples, const std::string& how,
                               const runs::ThoroughInspection& options);

}  // namespace cogwheel::tasks::images
