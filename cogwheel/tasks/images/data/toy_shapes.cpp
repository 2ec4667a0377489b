#include "cogwheel/tasks/images/data/toy_shapes.h"

#include <algorithm>
#include <cmath>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/range.h"
#include "cogwheel/tasks/images/data/image_source.h"
#include "cogwheel/tasks/images/data/toy_outline.h"

namespace cogwheel::tasks::images {
namespace {

class ToyShapeImages final : public ImageSource {
 public:
  ToyShapeImages(const ToyShapeOptions& options, bool tuning) : options_(options), tuning_(tuning) {
    facts_.name = "coloured shapes";
    facts_.height = facts_.width = options.size;
    facts_.captions = true;
    for (std::int64_t label = 0; label < 9; ++label)
      facts_.class_names.push_back(toy_shape_name(toy_shape_kind(label)));
    // Known by what it draws.
    Sha256 hash;
    hash.add(std::to_string(options.size) + " " + std::to_string(options.held_out) + "\n");
    for (std::int64_t index = 0; index < 36; ++index) {
      const ImageExample example = image(ImagePart::held_out, index);
      hash.add(example.caption + "\n");
      hash.add({reinterpret_cast<const char*>(example.pixels.data()), example.pixels.size()});
    }
    facts_.sha256 = hash.digits();
  }

  std::int64_t images(ImagePart part) const override { return part == ImagePart::training ? 0 : options_.held_out; }
  ImageExample image(ImagePart part, std::int64_t index) const override {
    if (part == ImagePart::training) return training_image(0, static_cast<std::uint64_t>(index));
    return drawn(0, tuning_ ? stream_named("tune") : stream_named("held"), static_cast<std::uint64_t>(index),
                 index % 9);
  }
  ImageExample training_image(std::uint64_t seed, std::uint64_t place) const override {
    NumberedDraws draws(seed, stream_named("kind"), place);
    return drawn(seed, stream_named("shap"), place, static_cast<std::int64_t>(draws.below(9)));
  }
  std::shared_ptr<const ImageSource> for_tuning() const override {
    return std::make_shared<ToyShapeImages>(options_, true);
  }

 private:
  ImageExample drawn(std::uint64_t seed, std::uint32_t stream, std::uint64_t number, std::int64_t label) const {
    NumberedDraws draws(seed, stream, number);
    const ToyShape shape = draw_toy_shape(toy_shape_kind(label), options_.size, draws);
    ImageExample example;
    example.label = label;
    example.caption = shape.caption;
    for (std::size_t channel = 0; channel < 3; ++channel)
      for (std::size_t pixel = channel; pixel < shape.image.pixels.size(); pixel += 3)
        example.pixels.push_back(shape.image.pixels[pixel]);
    return example;
  }

  ToyShapeOptions options_;
  bool tuning_;
};

}  // namespace

ToyShapeKind toy_shape_kind(std::int64_t label) { return {static_cast<int>(label / 3), static_cast<int>(label % 3)}; }

std::string toy_shape_name(const ToyShapeKind& kind) {
  return std::string(toy_colors[static_cast<std::size_t>(kind.color)]) + " " +
         std::string(toy_outlines[static_cast<std::size_t>(kind.outline)]);
}

ToyShape draw_toy_shape(const ToyShapeKind& kind, std::int64_t size, NumberedDraws& draws) {
  const auto side = static_cast<double>(size);
  ToyOutline outline{kind.outline, 0, 0, draws.between(0.15, 0.3) * side};
  const ToyOutlineExtent extent = outline.extent();
  // The rim stays ground: a corner of the triangle shades up to a pixel beyond it.
  outline.x = draws.between(1.5 + extent.left, side - 1.5 - extent.right);
  outline.y = draws.between(1.5 + extent.up, side - 1.5 - extent.down);
  const bool dark = draws.with_probability(0.5);
  const double ground = dark ? draws.between(8, 72) : draws.between(183, 247);
  double color[3];
  for (int channel = 0; channel < 3; ++channel)
    color[channel] = channel == kind.color ? draws.between(170, 255) : draws.between(0, 70);

  ToyShape shape{kind, {size, size, {}}, {}};
  shape.image.pixels.reserve(static_cast<std::size_t>(size * size * 3));
  for (std::int64_t y = 0; y < size; ++y)
    for (std::int64_t x = 0; x < size; ++x) {
      const double covered = outline.coverage(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      for (const double channel : color)
        shape.image.pixels.push_back(static_cast<std::uint8_t>(ground + (channel - ground) * covered + 0.5));
    }

  const double radius = outline.radius / side;
  const char* const extent_word = radius < 0.195 ? "small " : radius > 0.255 ? "large " : "";
  if (draws.with_probability(0.75)) shape.caption += "a ";
  if (draws.with_probability(0.5)) shape.caption += extent_word;
  shape.caption += toy_shape_name(kind);
  if (draws.with_probability(0.25)) shape.caption += dark ? " on a dark background" : " on a light background";
  return shape;
}

std::shared_ptr<const ImageSource> toy_shape_images(const ToyShapeOptions& options) {
  expect_within("image size", options.size, Range<std::int64_t>{16, 512});
  expect_within("held-out images", options.held_out, Range<std::int64_t>{1, 1'000'000});
  return std::make_shared<ToyShapeImages>(options, false);
}

}  // namespace cogwheel::tasks::images
