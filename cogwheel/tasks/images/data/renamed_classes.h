// Labelled images under the classes of a model that is there already.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/class_matching.h"
#include "cogwheel/tasks/images/data/image_source.h"

namespace cogwheel::tasks::images {

// The same images with `classes`, among which `match` says where those of the source are.
std::shared_ptr<const ImageSource> renamed_classes(std::shared_ptr<const ImageSource> source,
                                                   std::vector<std::string> classes, runs::ClassMatch match);

}  // namespace cogwheel::tasks::images
