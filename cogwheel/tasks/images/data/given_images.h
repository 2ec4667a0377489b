// Images that are tensors already, such as those of a safetensors file.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "cogwheel/tasks/images/data/image_source.h"

namespace cogwheel::tasks::images {

struct GivenImages {
  // Of the file that they come from; an empty hash: made of the tensors.
  std::string name = {}, sha256 = {};
  std::int64_t bytes = 0;
  // [images, 3, height, width] uint8, or latents [images, channels, height, width] of any floating type, finite; they
  // come as float32.
  at::Tensor images;
  at::Tensor labels = {};                     // [images] of any integer type, 0 or more; undefined: none
  at::Tensor contexts = {};                   // [images, tokens, width] of any floating type, finite; undefined: none
  std::vector<std::string> class_names = {};  // empty: the labels' numbers, up to the largest
};

// A tenth of each class is held out, chosen by content, which the hash says too. The tensors are kept, not copied,
// where they are contiguous and on the CPU. Throws Error with the name for what the comments above exclude, rows
// without a label or context included.
std::shared_ptr<const ImageSource> given_images(GivenImages given);

}  // namespace cogwheel::tasks::images
