#include "cogwheel/tasks/images/data/image_batches.h"

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "cogwheel/core/error.h"
#include "cogwheel/text/made_ahead.h"
#include "support/error_of.h"
#include "tasks/images/image_writers.h"

namespace cogwheel::tasks::images {
namespace {

using Bytes = std::vector<std::uint8_t>;

// [2, 3, 4]: 1 to 12, and 101 to 112.
Bytes two_planes() {
  Bytes pixels(24);
  std::iota(pixels.begin(), pixels.begin() + 12, std::uint8_t{1});
  std::iota(pixels.begin() + 12, pixels.end(), std::uint8_t{101});
  return pixels;
}

Bytes augmented(Bytes pixels, std::int64_t height, std::int64_t width, const ImageAugmentation& how,
                std::uint64_t place) {
  augment_image(pixels, height, width, how, 7, place);
  return pixels;
}

TEST(Augmentation, FlipsHalfOfTheImages) {
  const Bytes as_it_is = two_planes();
  const Bytes flipped{4,   3,   2,   1,   8,   7,   6,   5,   12,  11,  10,  9,
                      104, 103, 102, 101, 108, 107, 106, 105, 112, 111, 110, 109};
  int count = 0;
  for (std::uint64_t place = 0; place < 1000; ++place) {
    const Bytes found = augmented(as_it_is, 3, 4, {.flip = true}, place);
    EXPECT_TRUE(found == flipped || found == as_it_is);
    count += found == flipped;
    EXPECT_EQ(augmented(as_it_is, 3, 4, {.flip = true}, place), found);
  }
  EXPECT_NEAR(count, 500, 60);
  EXPECT_EQ(augmented(as_it_is, 3, 4, {}, 1), as_it_is);
}

TEST(Augmentation, CropsOutOfABlackFrame) {
  const Bytes pixels = two_planes();
  std::map<std::pair<int, int>, int> seen;
  for (std::uint64_t place = 0; place < 2500; ++place) {
    const Bytes found = augmented(pixels, 3, 4, {.crop_padding = 2}, place);
    int matches = 0;
    for (int down = -2; down <= 2; ++down)
      for (int right = -2; right <= 2; ++right) {
        Bytes expected;
        for (int plane = 0; plane < 2; ++plane)
          for (int y = down; y < down + 3; ++y)
            for (int x = right; x < right + 4; ++x)
              expected.push_back(y < 0 || y > 2 || x < 0 || x > 3
                                     ? std::uint8_t{0}
                                     : static_cast<std::uint8_t>(100 * plane + 4 * y + x + 1));
        if (found != expected) continue;
        ++matches, ++seen[{down, right}];
      }
    EXPECT_EQ(matches, 1);
    // What else is asked for does not change where it is cut.
    Bytes both = augmented(pixels, 3, 4, {.crop_padding = 2, .flip = true}, place);
    if (augmented(pixels, 3, 4, {.flip = true}, place) != pixels)
      for (auto row = both.begin(); row != both.end(); row += 4) std::reverse(row, row + 4);
    EXPECT_EQ(both, found);
  }
  EXPECT_EQ(seen.size(), 25u);
  for (const auto& [place, count] : seen) EXPECT_NEAR(count, 100, 45);
}

TEST(Augmentation, ErasesRectangles) {
  const Bytes white(3 * 20 * 30, 255);
  int erased = 0;
  double smallest = 1, largest = 0;
  std::set<std::int64_t> tops;
  for (std::uint64_t place = 0; place < 1000; ++place) {
    const Bytes found = augmented(white, 20, 30, {.erase = 0.5, .erase_fill = EraseFill::zero}, place);
    std::int64_t top = 20, bottom = -1, left = 30, right = -1, black = 0;
    for (std::int64_t y = 0; y < 20; ++y)
      for (std::int64_t x = 0; x < 30; ++x) {
        if (found[static_cast<std::size_t>(30 * y + x)] != 0) continue;
        top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x), right = std::max(right, x);
        ++black;
      }
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + 600, found.begin() + 600));  // in all channels
    if (black == 0) continue;
    ++erased;
    const std::int64_t height = bottom - top + 1, width = right - left + 1;
    EXPECT_EQ(black, height * width);  // a rectangle
    smallest = std::min(smallest, static_cast<double>(black) / 600),
    largest = std::max(largest, static_cast<double>(black) / 600);
    const double aspect = static_cast<double>(height) / static_cast<double>(width);
    EXPECT_GT(aspect, 0.3 / 1.6);  // sides are rounded
    EXPECT_LT(aspect, 1.6 / 0.3);
    tops.insert(top);
  }
  EXPECT_NEAR(erased, 500, 60);
  EXPECT_LT(smallest, 0.04);
  EXPECT_GT(smallest, 0.01);
  EXPECT_LT(largest, 0.43);
  EXPECT_GT(largest, 0.3);
  EXPECT_GT(tops.size(), 12u);
  const Bytes noise = augmented(white, 20, 30, {.erase = 1, .erase_min_area = 0.3}, 3);
  const std::set<int> values(noise.begin(), noise.end());
  EXPECT_GT(values.size(), 100u);
  EXPECT_EQ(augmented(white, 20, 30, {.erase = 1, .erase_min_area = 0.3}, 3), noise);
}

TEST(Augmentation, IsCheckedOnce) {
  const auto refused = [](const ImageAugmentation& how) { EXPECT_THROW(expect_valid(how, 8, 9), UsageError); };
  refused({.crop_padding = -1});
  refused({.crop_padding = 9});
  refused({.erase = 1.5});
  refused({.erase = std::numeric_limits<double>::quiet_NaN()});
  refused({.erase_min_area = 0.5, .erase_max_area = 0.4});
  refused({.erase_min_area = 0});
  refused({.erase_aspect = 2});
  expect_valid({.crop_padding = 8, .flip = true, .erase = 1}, 8, 9);
}

// Images that say where they come from: the first pixel is the number.
class NumberedImages final : public ImageSource {
 public:
  explicit NumberedImages(std::int64_t broken = -1) : broken_(broken) {
    facts_.name = "numbered";
    facts_.height = 2, facts_.width = 4;
    facts_.class_names = {"even", "odd"};
    facts_.captions = true;
  }
  std::int64_t images(ImagePart part) const override { return part == ImagePart::training ? 20 : 5; }
  ImageExample image(ImagePart part, std::int64_t index) const override {
    ++made;
    if (part == ImagePart::training && index == broken_) throw Error("7.png: expected a PNG, got none");
    ImageExample example;
    example.pixels.resize(24);
    std::iota(example.pixels.begin(), example.pixels.end(),
              static_cast<std::uint8_t>(index + 100 * static_cast<int>(part)));
    example.label = index % 2;
    example.caption = std::to_string(index);
    return example;
  }
  std::shared_ptr<const ImageSource> for_tuning() const override { return nullptr; }

  mutable std::atomic<int> made = 0;

 private:
  std::int64_t broken_;
};

TEST(ImageBatches, FollowFromSeedAndStep) {
  const auto source = std::make_shared<NumberedImages>();
  ImageBatches batches(source, 1, {.batch = 8}), again(source, 1, {.batch = 8, .ahead = 0}),
      other(source, 2, {.batch = 8});
  std::multiset<std::string> met;
  int differ = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    const ImageBatch batch = batches.at_step(step);
    EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{8, 3, 2, 4}));
    EXPECT_EQ(batch.images.scalar_type(), at::kFloat);
    for (std::int64_t row = 0; row < 8; ++row) {
      const int number = std::stoi(batch.captions[static_cast<std::size_t>(row)]);
      EXPECT_EQ(batch.labels[row].item<std::int64_t>(), number % 2);
      EXPECT_FLOAT_EQ(batch.images[row][1][1][2].item<float>(), 2 * static_cast<float>(number + 14) / 255 - 1);
    }
    met.insert(batch.captions.begin(), batch.captions.end());
    differ += batch.captions != other.at_step(step).captions;
  }
  EXPECT_EQ(differ, 5);
  for (int number = 0; number < 20; ++number) EXPECT_EQ(met.count(std::to_string(number)), 2u);  // two epochs
  for (const std::int64_t step : {4, 1, 2, 2}) {  // as a resumed run asks
    const ImageBatch one = batches.at_step(step), two = again.at_step(step);
    EXPECT_TRUE(one.images.equal(two.images));
    EXPECT_EQ(one.captions, two.captions);
  }
}

TEST(ImageBatches, AreAugmentedByPlace) {
  const auto source = std::make_shared<NumberedImages>();
  const ImageBatchOptions options{.batch = 20, .augmentation = {.flip = true}, .form = PixelForm::bytes};
  ImageBatches batches(source, 1, options), again(source, 1, options);
  int flipped = 0;
  std::vector<std::vector<bool>> by_number(20);
  for (std::int64_t step = 0; step < 6; ++step) {
    const ImageBatch batch = batches.at_step(step);
    EXPECT_EQ(batch.images.scalar_type(), at::kByte);
    for (std::int64_t row = 0; row < 20; ++row) {
      const auto number = static_cast<std::size_t>(std::stoi(batch.captions[static_cast<std::size_t>(row)]));
      const int first = batch.images[row][0][0][0].item<std::uint8_t>();
      EXPECT_TRUE(first == static_cast<int>(number) || first == static_cast<int>(number) + 3);
      flipped += first != static_cast<int>(number);
      by_number[number].push_back(first != static_cast<int>(number));
    }
  }
  EXPECT_NEAR(flipped, 60, 25);
  int vary = 0;  // over epochs
  for (const auto& each : by_number) vary += std::set<bool>(each.begin(), each.end()).size() == 2;
  EXPECT_GT(vary, 12);
  EXPECT_TRUE(again.at_step(3).images.equal(batches.at_step(3).images));
}

TEST(ImageBatches, AreMadeAheadInBoundedNumber) {
  const auto source = std::make_shared<NumberedImages>();
  {
    ImageBatches batches(source, 1, {.batch = 5, .ahead = 3});
    batches.at_step(0);
    // Three wait at most, one is being made at most, and the one that was taken.
    for (int waits = 0; waits < 500 && source->made < 20; ++waits)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(source->made, 20);
  }
  const ImageBatches unused(source, 1, {.batch = 5});  // ends though nothing was asked for
}

TEST(ImageBatches, SayWhatCannotBeRead) {
  for (const std::int64_t ahead : {0, 2}) {
    const auto source = std::make_shared<NumberedImages>(7);
    ImageBatches batches(source, 1, {.batch = 4, .ahead = ahead});
    int refused = 0, read = 0;
    for (std::int64_t step = 0; step < 5; ++step)
      for (int again = 0; again < 2; ++again) {
        const std::string message = error_of([&] { batches.at_step(step); });
        EXPECT_TRUE(message.empty() || message == "7.png: expected a PNG, got none");
        ++(message.empty() ? read : refused);
      }
    EXPECT_EQ(refused, 2);
    EXPECT_EQ(read, 8);
  }
}

TEST(ImageBatches, RefuseWhatCannotBe) {
  const auto source = std::make_shared<NumberedImages>();
  EXPECT_THROW(ImageBatches(source, 1, {.batch = 0}), UsageError);
  EXPECT_THROW(ImageBatches(source, 1, {.batch = 1, .ahead = -1}), UsageError);
  EXPECT_THROW(ImageBatches(source, 1, {.batch = 1, .augmentation = {.crop_padding = 3}}), UsageError);
}

TEST(MadeAhead, BeginsAnewWhereItIsAsked) {
  text::MadeAhead<std::int64_t> squares([](std::int64_t number) { return number * number; }, 4);
  for (std::int64_t round = 0; round < 2000; ++round) {
    const std::int64_t number = round % 7 == 6 ? 1000 - round % 100 : round;
    ASSERT_EQ(squares.at(number), number * number);
  }
}

TEST(ImagesInOrder, AreAllImagesOfAPart) {
  const NumberedImages source;
  std::vector<std::string> captions;
  for (std::int64_t first = 0; first < 5; first += 2) {
    const ImageBatch batch = images_in_order(source, ImagePart::held_out, first, 2, PixelForm::bytes);
    captions.insert(captions.end(), batch.captions.begin(), batch.captions.end());
    EXPECT_EQ(batch.images[0][0][0][1].item<std::uint8_t>(), 101 + first);
  }
  EXPECT_EQ(captions, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(images_in_order(source, ImagePart::held_out, 5, 2).images.size(0), 0);
}

TEST(ImageOfTensor, TurnsBack) {
  Image image = counted_image(16, 16);
  for (int byte = 0; byte < 256; ++byte) image.pixels[static_cast<std::size_t>(byte)] = static_cast<std::uint8_t>(byte);
  const at::Tensor tensor = tensor_of_image(image);
  EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{3, 16, 16}));
  EXPECT_EQ(image_of_tensor(tensor), image);
  EXPECT_EQ(tensor.min().item<float>(), -1);
  EXPECT_EQ(tensor.max().item<float>(), 1);
  for (const auto& [value, byte] :
       std::vector<std::pair<float, int>>{{-5, 0}, {5, 255}, {NAN, 0}, {INFINITY, 255}, {0.001F, 128}})
    EXPECT_EQ(int{image_of_tensor(at::full({3, 1, 1}, value)).pixels[1]}, byte) << value;
  EXPECT_EQ(image_of_tensor(at::full({3, 1, 2}, 77, at::kByte)).pixels, Bytes(6, 77));
  EXPECT_EQ(error_of([] {
              image_of_tensor(at::rand({1, 2, 2}));
            }),
            "picture: expected [3, height, width], got [1, 2, 2]");
}

}  // namespace
}  // namespace cogwheel::tasks::images
