#include "cogwheel/tasks/images/data/image_source.h"

#include "cogwheel/core/random.h"

namespace cogwheel::tasks::images {

ImageExample ImageSource::training_image(std::uint64_t seed, std::uint64_t place) const {
  const auto count = static_cast<std::uint64_t>(images(ImagePart::training));
  const KeyedOrder order(count, seed, place / count);
  return image(ImagePart::training, static_cast<std::int64_t>(order.at(place % count)));
}

}  // namespace cogwheel::tasks::images
