#include "cogwheel/tasks/images/data/image_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cogwheel/tasks/images/data/image_resize.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tasks/images/image_writers.h"

namespace cogwheel::tasks::images {
namespace {

using Pixels = std::vector<std::uint8_t>;

std::string refused_image(const std::string& bytes) {
  const std::string message = error_of([&] { decode_image(bytes, "a"); });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(Png, IsReadAsItIsWritten) {
  const Image image = counted_image(5, 7);
  const std::string png = encode_png(image);
  EXPECT_EQ(decode_image(png, "a"), image);
  EXPECT_EQ(encode_png(image), png);
  EXPECT_EQ(image_size(png, "a"), (ImageSize{5, 7}));
  EXPECT_EQ(decode_image(written_png(5, 7, {}, image.pixels), "a"), image);
  EXPECT_EQ(decode_image(written_png(5, 7, {.interlaced = true}, image.pixels), "a"), image);
  EXPECT_EQ(decode_image(png + "anything after it", "a"), image);
  EXPECT_EQ(error_of([] { encode_png({2, 2, Pixels(11)}); }), "PNG: expected 12 bytes of pixels, got 11");
  EXPECT_NE(error_of([] { encode_png({0, 2, {}}); }), "");
}

TEST(Png, OfEveryKindBecomesRgb) {
  const auto pixels = [](std::uint32_t width, const PngKind& kind, const Pixels& row) {
    return decode_image(written_png(1, width, kind, row), "a").pixels;
  };
  EXPECT_EQ(pixels(2, {.color = PNG_COLOR_TYPE_GRAY}, {0, 200}), (Pixels{0, 0, 0, 200, 200, 200}));
  // Of two bits each: 0, 1, 2, 3.
  EXPECT_EQ(pixels(4, {.color = PNG_COLOR_TYPE_GRAY, .bits = 2}, {0x1b}),
            (Pixels{0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255}));
  // 0x1234 is 18.2 of 255, 0x12c0 is 18.7: rounded, not cut.
  EXPECT_EQ(pixels(2, {.color = PNG_COLOR_TYPE_GRAY, .bits = 16}, {0x12, 0x34, 0x12, 0xc0}),
            (Pixels{18, 18, 18, 19, 19, 19}));
  EXPECT_EQ(pixels(1, {.bits = 16}, {0, 0, 0xff, 0xff, 0x80, 0x80}), (Pixels{0, 255, 128}));
  const PngKind palette{.color = PNG_COLOR_TYPE_PALETTE, .bits = 4, .palette = {{1, 2, 3}, {40, 50, 60}, {7, 8, 9}}};
  EXPECT_EQ(pixels(3, palette, {0x12, 0x00}), (Pixels{40, 50, 60, 7, 8, 9, 1, 2, 3}));
  // On white: 128/255 of 0 and the rest of 255.
  const Pixels over{10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 255, 128};
  EXPECT_EQ(pixels(3, {.color = PNG_COLOR_TYPE_RGBA}, over), (Pixels{10, 20, 30, 255, 255, 255, 127, 177, 255}));
  EXPECT_EQ(pixels(2, {.color = PNG_COLOR_TYPE_GRAY_ALPHA}, {0, 128, 9, 255}), (Pixels{127, 127, 127, 9, 9, 9}));
  PngKind see_through = palette;
  see_through.palette_alpha = {255, 0};
  EXPECT_EQ(pixels(3, see_through, {0x12, 0x00}), (Pixels{255, 255, 255, 7, 8, 9, 1, 2, 3}));
  EXPECT_EQ(pixels(2, {.color = PNG_COLOR_TYPE_GRAY, .transparent_grey = 200}, {0, 200}),
            (Pixels{0, 0, 0, 255, 255, 255}));
}

TEST(Png, IsRefusedWhereItIsCutOrDamaged) {
  const std::string png = written_png(5, 7, {.comment = "a comment"}, counted_image(5, 7).pixels);
  for (std::size_t length = 0; length < png.size(); ++length)
    EXPECT_NE(refused_image(png.substr(0, length)), "") << length;
  EXPECT_EQ(refused_image(png.substr(0, png.size() - 20)),
            "a: expected a PNG that can be decoded, got the end of the file before that of the picture");
  for (std::size_t byte = 8; byte < png.size(); ++byte) {
    std::string damaged = png;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
    EXPECT_NE(refused_image(damaged), "") << byte;
  }
}

TEST(Png, TooLargeIsRefusedByItsHeader) {
  const std::string png = encode_png(counted_image(5, 7));
  const std::string most = "a: expected a picture of at most 64 megapixels, and 65,500 a side, got ";
  EXPECT_EQ(refused_image(with_png_size(png, 8001, 8000)), most + "8000 × 8001");
  EXPECT_EQ(refused_image(with_png_size(png, 1, 65501)), most + "65501 × 1");
  EXPECT_EQ(refused_image(with_png_size(png, 0x7fffffff, 0x7fffffff)), most + "2147483647 × 2147483647");
  EXPECT_NE(refused_image(with_png_size(png, 0, 7)), "");
  EXPECT_NE(refused_image(with_png_size(png, 0x80000000, 7)), "");
  // What fits is missing its data.
  EXPECT_EQ(image_size(with_png_size(png, 8000, 8000), "a"), (ImageSize{8000, 8000}));
  EXPECT_NE(refused_image(with_png_size(png, 6, 7)), "");
}

// Colours that change slowly, which JPEG keeps nearly as they are.
Image smooth_image() {
  Image image{24, 40, {}};
  for (int y = 0; y < 24; ++y)
    for (int x = 0; x < 40; ++x)
      for (const int value : {40 + 5 * y, 200 - 3 * x, 60 + 2 * x + y})
        image.pixels.push_back(static_cast<std::uint8_t>(value));
  return image;
}

int largest_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.height, b.height);
  EXPECT_EQ(a.width, b.width);
  int largest = 0;
  for (std::size_t index = 0; index < a.pixels.size(); ++index)
    largest = std::max(largest, std::abs(a.pixels[index] - b.pixels[index]));
  return largest;
}

TEST(Jpeg, IsReadInItsColors) {
  const Image image = smooth_image();
  for (const bool progressive : {false, true}) {
    const std::string jpeg = written_jpeg(24, 40, {.progressive = progressive}, image.pixels);
    EXPECT_LE(largest_difference(decode_image(jpeg, "a"), image), 8);
    EXPECT_EQ(image_size(jpeg, "a"), (ImageSize{24, 40}));
    EXPECT_EQ(decode_image(jpeg + "anything after it", "a"), decode_image(jpeg, "a"));
  }
  EXPECT_LE(largest_difference(decode_image(written_jpeg(24, 40, {.stored = JCS_RGB}, image.pixels), "a"), image), 8);
  Pixels grey;
  Image of_grey{24, 40, {}};
  for (std::size_t index = 0; index < image.pixels.size(); index += 3) {
    grey.push_back(image.pixels[index]);
    of_grey.pixels.insert(of_grey.pixels.end(), 3, image.pixels[index]);
  }
  const JpegKind kind{.given = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .components = 1};
  EXPECT_LE(largest_difference(decode_image(written_jpeg(24, 40, kind, grey), "a"), of_grey), 4);
}

TEST(Jpeg, OfFourColorsIsRefusedByName) {
  const Pixels rows(8 * 8 * 4, 90);
  const auto refused = [&](J_COLOR_SPACE stored) {
    return refused_image(written_jpeg(8, 8, {.given = JCS_CMYK, .stored = stored, .components = 4}, rows));
  };
  EXPECT_EQ(refused(JCS_CMYK), "a: expected a JPEG of RGB, YCbCr or grey, got CMYK");
  EXPECT_EQ(refused(JCS_YCCK), "a: expected a JPEG of RGB, YCbCr or grey, got YCCK");
  EXPECT_EQ(refused_image(written_jpeg(8, 8, {.given = JCS_UNKNOWN, .stored = JCS_UNKNOWN, .components = 2},
                                       Pixels(8 * 8 * 2, 90))),
            "a: expected a JPEG of RGB, YCbCr or grey, got 2 components of unknown colours");
}

TEST(Jpeg, IsRefusedWhereItIsCutOrTooLarge) {
  for (const bool progressive : {false, true}) {
    const std::string jpeg = written_jpeg(24, 40, {.progressive = progressive}, smooth_image().pixels);
    for (std::size_t length = 0; length < jpeg.size(); ++length)
      EXPECT_NE(refused_image(jpeg.substr(0, length)), "") << length;
  }
  const std::string jpeg = written_jpeg(24, 40, {}, smooth_image().pixels);
  EXPECT_EQ(refused_image(jpeg.substr(0, jpeg.size() - 9)),
            "a: expected a JPEG that can be decoded, got Premature end of JPEG file");
  std::string huge = jpeg;
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const std::size_t byte : {5, 6, 7, 8}) huge[frame + byte] = '\x7f';
  EXPECT_EQ(refused_image(huge),
            "a: expected a picture of at most 64 megapixels, and 65,500 a side, got 32639 × 32639");
  std::string deep = jpeg;
  deep[frame + 4] = 12;
  EXPECT_EQ(refused_image(deep), "a: expected a JPEG that can be decoded, got Unsupported JPEG data precision 12");
}

TEST(Jpeg, OfManyScansIsRefused) {
  const auto with_split = [](int coefficients) {
    return written_jpeg(24, 40, {.split_coefficients = coefficients}, smooth_image().pixels);
  };
  EXPECT_EQ(refused_image(with_split(63)), "a: expected a JPEG that can be decoded, got more than 100 scans");
  EXPECT_EQ(refused_image(with_split(31)), "");
}

TEST(ImageFiles, AreKnownByTheirFirstBytes) {
  EXPECT_EQ(refused_image(""), "a: expected a PNG or JPEG, got an empty file");
  EXPECT_EQ(refused_image("GIF89a"), "a: expected a PNG or JPEG, got a GIF");
  EXPECT_EQ(refused_image("RIFF\1\2\3\4WEBPVP8 "), "a: expected a PNG or JPEG, got a WebP");
  EXPECT_EQ(refused_image("RIFF"), "a: expected a PNG or JPEG, got what begins with the bytes 52 49 46 46");
  EXPECT_EQ(refused_image("\xff\xd8"), "a: expected a PNG or JPEG, got what begins with the bytes ff d8");
  const TemporaryFolder folder;
  const Image image = counted_image(4, 3);
  const auto path = folder.write("picture.jpg", encode_png(image));  // whatever it is called
  EXPECT_EQ(read_image(path), image);
  EXPECT_EQ(read_image_size(path), (ImageSize{4, 3}));
  EXPECT_NE(error_of([&] { read_image(folder.path() / "none"); }).find((folder.path() / "none").string()),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_image_size(folder.path()); }), "");
  const auto long_file = folder.write("long.png", "");
  std::filesystem::resize_file(long_file, (std::uintmax_t{1} << 30) + 1);  // without taking space
  const std::string too_long = long_file.string() + ": expected a picture of at most 1 GiB, got 1073741825 bytes";
  EXPECT_EQ(error_of([&] { read_image(long_file); }), too_long);
  EXPECT_EQ(error_of([&] { read_image_size(long_file); }), too_long);
}

TEST(ImageFiles, SizesAreFoundBehindLongHeaders) {
  const TemporaryFolder folder;
  const std::string jpeg = written_jpeg(24, 40, {}, smooth_image().pixels);
  for (const int segments : {1, 6}) {  // of 60 kB each, as previews and profiles are
    std::string with_preview = jpeg.substr(0, 2);
    for (int segment = 0; segment < segments; ++segment) with_preview += "\xff\xe1\xea\x62" + std::string(0xea60, 'x');
    const auto path = folder.write("a.jpg", with_preview + jpeg.substr(2));
    EXPECT_EQ(read_image_size(path), (ImageSize{24, 40}));
  }
}

TEST(CentreSquare, AveragesTheAreaOfEachPixel) {
  const Image image = counted_image(4, 6);
  const Image same = centre_square(image, 4);
  for (std::int64_t y = 0; y < 4; ++y)
    for (std::int64_t x = 0; x < 4; ++x)
      EXPECT_EQ(same.pixels[static_cast<std::size_t>(3 * (4 * y + x))], 16 * y + x + 1);
  const Image half = centre_square(image, 2);
  EXPECT_EQ(half.pixels[0], (1 + 2 + 17 + 18 + 2) / 4);  // rounded up from a half
  const Image two{2, 2, {0, 0, 0, 30, 30, 30, 60, 60, 60, 90, 90, 90}};
  const Image three = centre_square(two, 3);  // the middle of each side has both its pixels
  const Pixels expected{0, 15, 30, 30, 45, 60, 60, 75, 90};
  for (std::size_t pixel = 0; pixel < 9; ++pixel) EXPECT_EQ(three.pixels[3 * pixel + 1], expected[pixel]);
  EXPECT_EQ(centre_square(two, 1).pixels, (Pixels{45, 45, 45}));
  // 3 pixels to 2: two thirds and one third.
  const Image line{
      3, 3, {0, 0, 0, 90, 90, 90, 30, 30, 30, 0, 0, 0, 90, 90, 90, 30, 30, 30, 0, 0, 0, 90, 90, 90, 30, 30, 30}};
  EXPECT_EQ(centre_square(line, 2).pixels[0], 30);
  EXPECT_EQ(centre_square(line, 2).pixels[3], 50);
}

// Bytes that are cut, changed or random either decode or throw Error.
TEST(ImageFiles, SurviveAnything) {
  std::mt19937 draw(1);
  std::int64_t read = 0, refused = 0;
  const auto attack = [&](const std::string& good, bool repair) {
    for (int round = 0; round < 400; ++round) {
      std::string bytes = good;
      if (round % 4 == 0) bytes.resize(draw() % (good.size() + 1));
      if (round % 4 == 3) bytes.insert(draw() % good.size(), good, draw() % good.size(), draw() % 99);
      for (auto changes = round % 4 == 0 ? 0 : 1 + draw() % 8; changes > 0; --changes)
        bytes[2 + draw() % (bytes.size() - 2)] = static_cast<char>(draw());
      if (repair) repair_checksums(bytes);
      try {
        const Image image = decode_image(bytes, "a");
        EXPECT_EQ(std::ssize(image.pixels), 3 * image.height * image.width);
        ++read;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("a: expected "), std::string::npos);
        ++refused;
      }
    }
  };
  const Image image = smooth_image();
  for (const bool repair : {false, true}) {
    attack(encode_png(image), repair);
    attack(written_png(24, 40, {.interlaced = true, .comment = "comment"}, image.pixels), repair);
    attack(written_png(4, 2, {.color = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}, {4, 5, 6}}, .palette_alpha = {9}},
                       {0, 1, 1, 0, 0, 0, 1, 0}),
           repair);
    attack(written_png(1, 3, {.color = PNG_COLOR_TYPE_RGBA, .bits = 16}, Pixels(24, 77)), repair);
  }
  attack(written_jpeg(24, 40, {}, image.pixels), false);
  attack(written_jpeg(24, 40, {.progressive = true}, image.pixels), false);
  EXPECT_GT(read, 80);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace cogwheel::tasks::images
