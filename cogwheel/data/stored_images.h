// The part that sources of a given number of images share: which are trained on, which are held out.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/data/image_source.h"

namespace cogwheel {

// Images by number.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  virtual ImageExample image(std::int64_t index) const = 0;
  // By which a split is made: the content or the name. May read the image.
  virtual std::string origin(std::int64_t index) const = 0;
};

// Numbers of images. Where `held_out` is empty, a tenth of `training` is; `tuning` is held out in its place for tuning,
// and where that is empty a tenth of `training`.
struct ImageSplit {
  std::vector<std::int64_t> training, held_out = {}, tuning = {};
};

// Throws Error where nothing would be left to train on.
std::shared_ptr<const ImageSource> stored_images(ImageSetFacts facts, std::shared_ptr<const ImageStore> store,
                                                 ImageSplit split);

}  // namespace cogwheel
