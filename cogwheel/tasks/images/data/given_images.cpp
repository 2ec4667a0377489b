#include "cogwheel/tasks/images/data/given_images.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/tasks/images/data/stored_images.h"

namespace cogwheel::tasks::images {
namespace {

constexpr std::int64_t max_classes = 1'000'000;

std::string_view raw_bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class GivenImageStore final : public ImageStore {
 public:
  explicit GivenImageStore(GivenImages given) : given_(std::move(given)) {}

  ImageExample image(std::int64_t index) const override {
    ImageExample example;
    const at::Tensor image = given_.images[index];
    if (image.scalar_type() == at::kByte) {
      const auto* const pixels = image.const_data_ptr<std::uint8_t>();
      example.pixels.assign(pixels, pixels + image.numel());
    } else {
      example.latent = floats(image);
    }
    if (given_.labels.defined()) example.label = given_.labels.const_data_ptr<std::int64_t>()[index];
    if (given_.contexts.defined()) example.context = floats(given_.contexts[index]);
    return example;
  }

 private:
  static std::vector<float> floats(const at::Tensor& tensor) {
    const at::Tensor converted = tensor.to(at::kFloat);
    const auto* const values = converted.const_data_ptr<float>();
    return {values, values + converted.numel()};
  }

  GivenImages given_;
};

// Slice by slice: a table of what is finite would take a byte for each number.
void expect_finite(const std::string& what, const at::Tensor& tensor) {
  for (std::int64_t row = 0; row < tensor.size(0); ++row)
    if (!at::isfinite(tensor[row]).all().item<bool>())
      throw Error(expected_got(what, "finite numbers", "others in row " + std::to_string(row)));
}

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

}  // namespace

std::shared_ptr<const ImageSource> given_images(GivenImages given) {
  ImageSetFacts facts;
  facts.name = given.name, facts.bytes = given.bytes;
  const auto expect = [&](bool right, const char* what, const std::string& expected, const std::string& got) {
    if (!right) throw Error(expected_got(given.name + ": " + what, expected, got));
  };
  const auto text = [](const at::Tensor& tensor) {
    return !tensor.defined() ? "none" : shape_text(tensor.sizes()) + " of " + c10::toString(tensor.scalar_type());
  };
  const auto is_floating = [](const at::Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); };

  const bool pixels = given.images.defined() && given.images.scalar_type() == at::kByte;
  expect(given.images.defined() && given.images.dim() == 4 && given.images.numel() > 0 &&
             (pixels ? given.images.size(1) == 3 : is_floating(given.images)),
         "images", "[images, 3, height, width] of Byte or [images, channels, height, width] of Float",
         text(given.images));
  given.images = on_cpu(given.images);
  if (!pixels) expect_finite(given.name + ": images", given.images);
  const std::int64_t count = given.images.size(0);
  facts.channels = given.images.size(1), facts.height = given.images.size(2), facts.width = given.images.size(3);
  facts.latents = !pixels;

  if (given.labels.defined()) {
    expect(given.labels.dim() == 1 && given.labels.size(0) == count &&
               at::isIntegralType(given.labels.scalar_type(), /*includeBool=*/false),
           "labels", "one whole number for each of " + std::to_string(count) + " images", text(given.labels));
    given.labels = on_cpu(given.labels.to(at::kLong));
    const std::int64_t limit = given.class_names.empty() ? max_classes : std::ssize(given.class_names);
    const auto* const labels = given.labels.const_data_ptr<std::int64_t>();
    std::int64_t largest = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      expect(labels[row] >= 0 && labels[row] < limit, "labels", "0 to " + std::to_string(limit - 1),
             std::to_string(labels[row]) + " in row " + std::to_string(row));
      largest = std::max(largest, labels[row]);
    }
    facts.class_names = given.class_names;
    if (facts.class_names.empty())
      for (std::int64_t label = 0; label <= largest; ++label) facts.class_names.push_back(std::to_string(label));
  } else {
    expect(given.class_names.empty(), "labels", "those of the classes that are named", "none");
  }
  if (given.contexts.defined()) {
    expect(given.contexts.dim() == 3 && given.contexts.size(0) == count && given.contexts.numel() > 0 &&
               is_floating(given.contexts),
           "contexts", "[" + std::to_string(count) + ", tokens, width] of Float", text(given.contexts));
    given.contexts = on_cpu(given.contexts);
    expect_finite(given.name + ": contexts", given.contexts);
    facts.context_tokens = given.contexts.size(1), facts.context_width = given.contexts.size(2);
  }
  if (facts.sha256 = given.sha256; facts.sha256.empty()) {
    Sha256 hash;
    for (const at::Tensor* const tensor : {&given.images, &given.labels, &given.contexts}) {
      hash.add(text(*tensor) + "\n");
      if (tensor->defined()) hash.add(raw_bytes(*tensor));
    }
    facts.sha256 = hash.digits();
  }
  ImageSplit split;
  for (std::int64_t row = 0; row < count; ++row) split.training.push_back(row);
  return stored_images(std::move(facts), std::make_shared<GivenImageStore>(std::move(given)), std::move(split));
}

}  // namespace cogwheel::tasks::images
