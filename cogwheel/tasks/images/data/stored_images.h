// The part that sources of a given number of images share: which are trained on, which are held out.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/tasks/images/data/image_source.h"

namespace cogwheel::tasks::images {

// Images by number, for several threads at once.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  virtual ImageExample image(std::int64_t index) const = 0;
};

// Numbers of images. Where `held_out` is empty, a tenth of `training` is, of each class and by what they show
// (held_out_tenth.h), and the hash of the facts becomes one of that too; `tuning` is held out in its place for tuning,
// and where that is empty a tenth of `training`.
struct ImageSplit {
  std::vector<std::int64_t> training, held_out = {}, tuning = {};
};

// `read` for each of 0 to count − 1, by several threads. Throws the Error of the first for which it does.
void for_each_picture(std::int64_t count, const std::function<void(std::int64_t)>& read);

// Throws Error where nothing would be left to train on.
std::shared_ptr<const ImageSource> stored_images(ImageSetFacts facts, std::shared_ptr<const ImageStore> store,
                                                 ImageSplit split);

}  // namespace cogwheel::tasks::images
