#include "cogwheel/tasks/images/data/image_batches.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/text/made_ahead.h"

namespace cogwheel::tasks::images {
namespace {

// 2 x/255 - 1 of each byte, rounded once, so that x and 255 - x are opposite.
const std::array<float, 256>& scaled_bytes() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> made;
    for (std::size_t byte = 0; byte < 256; ++byte)
      made[byte] = static_cast<float>((2 * static_cast<double>(byte) - 255) / 255);
    return made;
  }();
  return table;
}

// The tensors of a batch, filled image by image.
class ImageBatchBuilder {
 public:
  ImageBatchBuilder(const ImageSource& source, std::int64_t count, PixelForm form)
      : as_bytes_(form == PixelForm::bytes && !source.facts().latents) {
    const ImageSetFacts& facts = source.facts();
    batch_.images = at::empty({count, facts.channels, facts.height, facts.width}, as_bytes_ ? at::kByte : at::kFloat);
    if (!facts.class_names.empty()) batch_.labels = at::empty({count}, at::kLong);
    if (facts.context_tokens > 0)
      batch_.contexts = at::empty({count, facts.context_tokens, facts.context_width}, at::kFloat);
  }

  void add(ImageExample example) {
    const std::int64_t image_numbers = batch_.images.stride(0);
    if (!example.latent.empty()) {
      std::copy(example.latent.begin(), example.latent.end(),
                batch_.images.mutable_data_ptr<float>() + row_ * image_numbers);
    } else if (as_bytes_) {
      std::copy(example.pixels.begin(), example.pixels.end(),
                batch_.images.mutable_data_ptr<std::uint8_t>() + row_ * image_numbers);
    } else {
      std::transform(example.pixels.begin(), example.pixels.end(),
                     batch_.images.mutable_data_ptr<float>() + row_ * image_numbers,
                     [&table = scaled_bytes()](std::uint8_t byte) { return table[byte]; });
    }
    if (batch_.labels.defined()) batch_.labels.mutable_data_ptr<std::int64_t>()[row_] = example.label;
    if (batch_.contexts.defined())
      std::copy(example.context.begin(), example.context.end(),
                batch_.contexts.mutable_data_ptr<float>() + row_ * batch_.contexts.stride(0));
    if (!example.caption.empty()) batch_.captions.push_back(std::move(example.caption));
    ++row_;
  }

  ImageBatch finish() && { return std::move(batch_); }

 private:
  bool as_bytes_;
  ImageBatch batch_;
  std::int64_t row_ = 0;
};

}  // namespace

struct ImageBatches::Ahead : text::MadeAhead<ImageBatch> {
  using MadeAhead::MadeAhead;
};

ImageBatches::ImageBatches(std::shared_ptr<const ImageSource> source, std::uint64_t seed,
                           const ImageBatchOptions& options)
    : source_(std::move(source)), seed_(seed), options_(options) {
  expect_within("batch", options.batch, Range<std::int64_t>{1, 1'000'000});
  expect_within("batches made ahead", options.ahead, Range<std::int64_t>{0, 1000});
  expect_valid(options.augmentation, source_->height(), source_->width());
  if (source_->facts().latents && options.augmentation.any())
    throw UsageError(expected_got("augmentation", "none of latents", "some"));
  if (options.ahead > 0)
    ahead_ = std::make_unique<Ahead>([this](std::int64_t step) { return make(step); }, options.ahead);
}

ImageBatches::~ImageBatches() = default;

ImageBatch ImageBatches::at_step(std::int64_t step) { return ahead_ ? ahead_->at(step) : make(step); }

ImageBatch ImageBatches::make(std::int64_t step) const {
  ImageBatchBuilder builder(*source_, options_.batch, options_.form);
  for (std::int64_t row = 0; row < options_.batch; ++row) {
    const auto place = static_cast<std::uint64_t>(step * options_.batch + row);
    ImageExample example = source_->training_image(seed_, place);
    if (options_.augmentation.any())
      augment_image(example.pixels, source_->height(), source_->width(), options_.augmentation, seed_, place);
    builder.add(std::move(example));
  }
  return std::move(builder).finish();
}

ImageBatch images_at(const ImageSource& source, ImagePart part, std::span<const std::int64_t> numbers, PixelForm form) {
  ImageBatchBuilder builder(source, std::ssize(numbers), form);
  for (const std::int64_t number : numbers) builder.add(source.image(part, number));
  return std::move(builder).finish();
}

ImageBatch images_in_order(const ImageSource& source, ImagePart part, std::int64_t first, std::int64_t count,
                           PixelForm form) {
  const std::int64_t all = source.images(part);
  if (part == ImagePart::held_out || all > 0) count = std::clamp<std::int64_t>(all - first, 0, count);
  ImageBatchBuilder builder(source, count, form);
  for (std::int64_t index = first; index < first + count; ++index) builder.add(source.image(part, index));
  return std::move(builder).finish();
}

Image image_of_tensor(const at::Tensor& tensor) {
  if (tensor.dim() != 3 || tensor.size(0) != 3)
    throw Error(expected_got("picture", "[3, height, width]", shape_text(tensor.sizes())));
  const bool bytes = tensor.scalar_type() == at::kByte;
  const at::Tensor all = tensor.detach().to(at::kCPU, bytes ? at::kByte : at::kFloat).contiguous();
  Image image{tensor.size(1), tensor.size(2), {}};
  image.pixels.resize(static_cast<std::size_t>(all.numel()));
  const std::int64_t plane = image.height * image.width;
  for (std::int64_t pixel = 0; pixel < plane; ++pixel)
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      std::uint8_t& to = image.pixels[static_cast<std::size_t>(3 * pixel + channel)];
      if (bytes) {
        to = all.const_data_ptr<std::uint8_t>()[channel * plane + pixel];
      } else {
        const float value = all.const_data_ptr<float>()[channel * plane + pixel];
        to =
            value > -1 ? static_cast<std::uint8_t>(std::lround((std::min(value, 1.0F) + 1) * 127.5F)) : std::uint8_t{0};
      }
    }
  return image;
}

at::Tensor tensor_of_image(const Image& image) {
  at::Tensor tensor = at::empty({3, image.height, image.width}, at::kFloat);
  float* to = tensor.mutable_data_ptr<float>();
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t pixel = channel; pixel < image.pixels.size(); pixel += 3)
      *to++ = scaled_bytes()[image.pixels[pixel]];
  return tensor;
}

}  // namespace cogwheel::tasks::images
