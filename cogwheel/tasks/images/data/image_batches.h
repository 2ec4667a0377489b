// Batches of images, as input tensors of a model, and back.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/tasks/images/data/image.h"
#include "cogwheel/tasks/images/data/image_augmentation.h"
#include "cogwheel/tasks/images/data/image_source.h"

namespace cogwheel::tasks::images {

struct ImageBatch {
  at::Tensor images;    // [images, channels, height, width] float32, pixels in [-1, 1]; or uint8, as bytes
  at::Tensor labels;    // [images] int64; undefined without classes
  at::Tensor contexts;  // [images, tokens, width] float32; undefined without contexts
  std::vector<std::string> captions;  // [images]; empty without captions
};

enum class PixelForm {
  scaled,  // 2 x/255 - 1; latents come as they are in any case
  bytes    // uint8
};

struct ImageBatchOptions {
  std::int64_t batch = 0;  // images, 1 or more
  ImageAugmentation augmentation = {};
  PixelForm form = PixelForm::scaled;
  std::int64_t ahead = 2;  // batches that are made before they are asked for, by a thread; 0: none, and no thread
};

// Batches of a training run. They depend only on the data, the seed and the step, so that a resumed run needs no state;
// steps in a row are made ahead. Not for several threads at once.
class ImageBatches {
 public:
  // Throws UsageError for a number out of its range, and for augmentation of latents: what they are is not known.
  ImageBatches(std::shared_ptr<const ImageSource> source, std::uint64_t seed, const ImageBatchOptions& options);
  ~ImageBatches();

  // Throws Error where a file can no longer be read; asked again, it tries again.
  ImageBatch at_step(std::int64_t step);

 private:
  struct Ahead;

  ImageBatch make(std::int64_t step) const;

  std::shared_ptr<const ImageSource> source_;
  std::uint64_t seed_;
  ImageBatchOptions options_;
  std::unique_ptr<Ahead> ahead_;
};

// Images of a part by their numbers, unchanged and in this order.
ImageBatch images_at(const ImageSource& source, ImagePart part, std::span<const std::int64_t> numbers,
                     PixelForm form = PixelForm::scaled);
// Images of a part from a number on, as many as there are and at most `count`, unchanged and in their order.
ImageBatch images_in_order(const ImageSource& source, ImagePart part, std::int64_t first, std::int64_t count,
                           PixelForm form = PixelForm::scaled);

// The picture of one image [3, height, width], float in [-1, 1], clamped and rounded, or uint8. NaN becomes black.
Image image_of_tensor(const at::Tensor& tensor);

// The other way: [3, height, width] float32 in [-1, 1].
at::Tensor tensor_of_image(const Image& image);

}  // namespace cogwheel::tasks::images
