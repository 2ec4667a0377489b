#include "cogwheel/tasks/images/data/toy_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/images/data/image_source.h"

namespace cogwheel::tasks::images {
namespace {

ToyShape shape_number(std::uint64_t number, std::int64_t size) {
  NumberedDraws draws(5, 1, number);
  return draw_toy_shape(toy_shape_kind(static_cast<std::int64_t>(number % 9)), size, draws);
}

TEST(ToyShapes, ShowWhatTheyAre) {
  EXPECT_EQ(toy_shape_name(toy_shape_kind(0)), "red circle");
  EXPECT_EQ(toy_shape_name(toy_shape_kind(5)), "green triangle");
  for (std::int64_t label = 0; label < 9; ++label) EXPECT_EQ(toy_shape_kind(label).label(), label);
  std::set<std::string> words, captions;
  for (std::uint64_t number = 0; number < 900; ++number) {
    const ToyShape shape = shape_number(number, 32);
    const auto pixel = [&](std::int64_t y, std::int64_t x, int channel) {
      return int{shape.image.pixels[static_cast<std::size_t>(3 * (32 * y + x) + channel)]};
    };
    // The rim is ground, one shade of grey, as dark as the caption says.
    const int ground = pixel(0, 0, 0);
    for (std::int64_t along = 0; along < 32; ++along)
      for (int channel = 0; channel < 3; ++channel)
        for (const int found :
             {pixel(0, along, channel), pixel(31, along, channel), pixel(along, 0, channel), pixel(along, 31, channel)})
          EXPECT_EQ(found, ground);
    EXPECT_EQ(shape.caption.find(ground < 128 ? "light" : "dark"), std::string::npos);
    EXPECT_NE(shape.caption.find(toy_shape_name(shape.kind)), std::string::npos);
    // The area is that of a circle of 0.15 to 0.3 of the size, and of the size that the caption says.
    int other = 0;
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        other += std::abs(pixel(y, x, shape.kind.color) - ground) > 0 ||
                 std::abs(pixel(y, x, (shape.kind.color + 1) % 3) - ground) > 0;
    const double radius = std::sqrt(other / 3.14159) / 32;
    EXPECT_GT(radius, 0.15);
    EXPECT_LT(radius, 0.36);
    EXPECT_TRUE(radius < 0.25 || shape.caption.find("small") == std::string::npos) << radius;
    EXPECT_TRUE(radius > 0.255 || shape.caption.find("large") == std::string::npos) << radius;
    captions.insert(shape.caption);
    std::istringstream caption(shape.caption);
    for (std::string word; caption >> word;) words.insert(word);
  }
  EXPECT_EQ(words, (std::set<std::string>{"a", "background", "blue", "circle", "dark", "green", "large", "light", "on",
                                          "red", "small", "square", "triangle"}));
  EXPECT_GT(captions.size(), 60u);
}

// Outlines are of one area, which pixels that are partly covered count in part.
TEST(ToyShapes, AreDrawnWithTheirArea) {
  std::map<int, double> widths, heights, shares;
  for (std::uint64_t number = 0; number < 450; ++number) {
    const ToyShape shape = shape_number(number, 64);
    std::int64_t left = 64, right = -1, top = 64, bottom = -1;
    double covered = 0;
    int most = 0;
    for (const bool measure : {false, true})
      for (int y = 0; y < 64; ++y)
        for (int x = 0; x < 64; ++x) {
          int difference = 0;
          for (std::size_t channel = 0; channel < 3; ++channel)
            difference += std::abs(shape.image.pixels[static_cast<std::size_t>(3 * (64 * y + x)) + channel] -
                                   shape.image.pixels[channel]);
          most = std::max(most, difference);
          if (!measure) continue;
          covered += static_cast<double>(difference) / most;
          if (2 * difference < most) continue;
          left = std::min<std::int64_t>(left, x), right = std::max<std::int64_t>(right, x);
          top = std::min<std::int64_t>(top, y), bottom = std::max<std::int64_t>(bottom, y);
        }
    const auto width = static_cast<double>(right - left + 1), height = static_cast<double>(bottom - top + 1);
    widths[shape.kind.outline] += width, heights[shape.kind.outline] += height;
    shares[shape.kind.outline] += covered / (width * height) / 150;
  }
  EXPECT_NEAR(shares[0], 3.14159 / 4, 0.03);
  EXPECT_NEAR(shares[1], 1, 0.03);
  EXPECT_NEAR(shares[2], 0.5, 0.03);
  EXPECT_NEAR(heights[0] / widths[0], 1, 0.01);
  EXPECT_NEAR(heights[2] / widths[2], 0.866, 0.02);
}

double share_recognised(std::int64_t size, double noise, int count) {
  std::mt19937 generator(3);
  std::normal_distribution<double> normal(0, noise);
  int right = 0;
  for (int number = 0; number < count; ++number) {
    ToyShape shape = shape_number(static_cast<std::uint64_t>(1000 + number), size);
    for (std::uint8_t& byte : shape.image.pixels)
      if (noise > 0) byte = static_cast<std::uint8_t>(std::clamp(std::lround(byte + normal(generator)), 0L, 255L));
    right += classify_shape(shape.image) == shape.kind;
  }
  return static_cast<double>(right) / count;
}

TEST(ClassifyShape, FindsWhatIsDrawn) {
  EXPECT_GE(share_recognised(16, 0, 450), 0.995);
  EXPECT_EQ(share_recognised(32, 0, 450), 1);
  EXPECT_EQ(share_recognised(64, 0, 90), 1);
  EXPECT_GE(share_recognised(32, 20, 450), 0.99);
}

TEST(ClassifyShape, FindsNothingWhereNothingIsShown) {
  const Image plain{32, 32, std::vector<std::uint8_t>(32 * 32 * 3, 200)};
  EXPECT_FALSE(classify_shape(plain).has_value());
  EXPECT_FALSE(classify_shape({1, 1, {1, 2, 3}}).has_value());
  std::mt19937 draw(1);
  int found = 0;
  for (int round = 0; round < 50; ++round) {
    Image noise = plain;
    for (std::uint8_t& byte : noise.pixels) byte = static_cast<std::uint8_t>(draw());
    found += classify_shape(noise).has_value();
  }
  EXPECT_EQ(found, 0);
  const auto with_region = [&](auto inside, std::array<std::uint8_t, 3> color) {
    Image image = plain;
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        if (inside(y, x)) std::copy(color.begin(), color.end(), image.pixels.begin() + 3 * (32 * y + x));
    return classify_shape(image);
  };
  const auto square = [](int y, int x) { return y > 5 && y < 20 && x > 8 && x < 23; };
  EXPECT_EQ(with_region(square, {20, 20, 220}), (ToyShapeKind{2, 1}));
  EXPECT_FALSE(with_region(square, {220, 210, 20}).has_value());                                      // yellow
  EXPECT_FALSE(with_region([](int y, int) { return y > 14 && y < 18; }, {220, 20, 20}).has_value());  // a bar
  // A spot beside it does not matter.
  EXPECT_EQ(with_region([&](int y, int x) { return square(y, x) || (y > 25 && y < 28 && x == 4); }, {20, 20, 220}),
            (ToyShapeKind{2, 1}));
}

TEST(ToyShapeImages, HaveNoEndAndOneHeldOutPart) {
  const auto source = toy_shape_images({.size = 16, .held_out = 45}),
             again = toy_shape_images({.size = 16, .held_out = 45});
  EXPECT_EQ(source->sha256(), again->sha256());
  EXPECT_NE(source->sha256(), toy_shape_images({.size = 17, .held_out = 45})->sha256());
  EXPECT_EQ(source->images(ImagePart::training), 0);
  EXPECT_EQ(source->images(ImagePart::held_out), 45);
  EXPECT_EQ(source->class_names().size(), 9u);
  EXPECT_TRUE(source->facts().captions);
  std::map<std::int64_t, int> labels, trained;
  for (std::int64_t index = 0; index < 45; ++index) {
    const ImageExample example = source->image(ImagePart::held_out, index);
    EXPECT_EQ(example.pixels.size(), 3u * 16 * 16);
    EXPECT_NE(example.caption.find(source->class_names()[static_cast<std::size_t>(example.label)]), std::string::npos);
    EXPECT_NE(example.pixels, source->for_tuning()->image(ImagePart::held_out, index).pixels);
    ++labels[example.label];
  }
  for (const auto& [label, count] : labels) EXPECT_EQ(count, 5);
  for (std::uint64_t place = 0; place < 900; ++place) ++trained[source->training_image(1, place).label];
  for (std::int64_t label = 0; label < 9; ++label) EXPECT_NEAR(trained[label], 100, 40);
  const ImageExample one = source->training_image(3, 1'000'000'007);
  EXPECT_EQ(one.pixels, again->training_image(3, 1'000'000'007).pixels);
  EXPECT_NE(one.pixels, source->training_image(4, 1'000'000'007).pixels);
  // Channel first: the region of a red shape is in the first plane.
  for (std::int64_t index = 0; index < 9; ++index) {
    const ImageExample example = source->image(ImagePart::held_out, index);
    Image image{16, 16, std::vector<std::uint8_t>(3 * 16 * 16)};
    for (std::size_t pixel = 0; pixel < 256; ++pixel)
      for (std::size_t channel = 0; channel < 3; ++channel)
        image.pixels[3 * pixel + channel] = example.pixels[256 * channel + pixel];
    EXPECT_EQ(classify_shape(image), toy_shape_kind(example.label));
  }
  EXPECT_THROW(toy_shape_images({.size = 15}), UsageError);
  EXPECT_THROW(toy_shape_images({.held_out = 0}), UsageError);
}

}  // namespace
}  // namespace cogwheel::tasks::images
