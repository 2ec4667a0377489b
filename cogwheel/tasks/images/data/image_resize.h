// Pictures of any size made into squares of one.
#pragma once
#include <cstdint>

#include "cogwheel/tasks/images/data/image.h"

namespace cogwheel::tasks::images {

// The square in the middle, as large as the shorter side, scaled to size × size by the area filter: a pixel is the mean
// of the area that it covers, each pixel below weighted by its share. So nothing is skipped when shrinking, as
// bilinear sampling does, and enlarging repeats pixels. In integers, rounded once: the same bytes on every machine.
// The picture has pixels; size is 1 or more.
Image centre_square(const Image& image, std::int64_t size);

}  // namespace cogwheel::tasks::images
