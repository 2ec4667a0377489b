// PNG and JPEG of every kind, to be read. The libraries end the test program where they are called wrongly.
#pragma once
#include <cstdio>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cogwheel/tasks/images/data/image.h"

namespace cogwheel::tasks::images {

struct PngKind {
  int color = PNG_COLOR_TYPE_RGB, bits = 8;
  bool interlaced = false;
  std::vector<std::array<std::uint8_t, 3>> palette = {};
  std::vector<std::uint8_t> palette_alpha = {};
  int transparent_grey = -1;
  std::string comment = {};
};

// `rows` are as the kind stores them.
inline std::string written_png(std::uint32_t height, std::uint32_t width, const PngKind& kind,
                               std::vector<std::uint8_t> rows) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) std::abort();
  const auto append = [](png_structp of, png_bytep from, png_size_t count) {
    static_cast<std::string*>(png_get_io_ptr(of))->append(reinterpret_cast<const char*>(from), count);
  };
  png_set_write_fn(png, &bytes, append, nullptr);
  png_set_IHDR(png, info, width, height, kind.bits, kind.color,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (const auto& [red, green, blue] : kind.palette) palette.push_back({red, green, blue});
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (!kind.palette_alpha.empty())
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()), nullptr);
  png_color_16 grey{};
  grey.gray = static_cast<png_uint_16>(kind.transparent_grey);
  if (kind.transparent_grey >= 0) png_set_tRNS(png, info, nullptr, 0, &grey);
  std::string key = "Comment", text = kind.comment;
  png_text comment{};
  comment.compression = PNG_TEXT_COMPRESSION_zTXt, comment.key = key.data(), comment.text = text.data();
  comment.text_length = text.size();
  if (!text.empty()) png_set_text(png, info, &comment, 1);
  png_write_info(png, info);
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  if (rows.size() != height * row_bytes) std::abort();
  std::vector<png_bytep> starts;
  for (std::uint32_t row = 0; row < height; ++row) starts.push_back(rows.data() + row * row_bytes);
  png_write_image(png, starts.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

struct JpegKind {
  J_COLOR_SPACE given = JCS_RGB, stored = JCS_YCbCr;
  int components = 3, quality = 95;
  bool progressive = false;
  int split_coefficients = 0;  // of each component in scans of their own; the rest share one scan
};

// `rows` are [height, width, components].
inline std::string written_jpeg(std::uint32_t height, std::uint32_t width, const JpegKind& kind,
                                std::vector<std::uint8_t> rows) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_height = height, jpeg.image_width = width;
  jpeg.input_components = kind.components, jpeg.in_color_space = kind.given;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, kind.stored);
  jpeg_set_quality(&jpeg, kind.quality, TRUE);
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  std::vector<jpeg_scan_info> scans{{3, {0, 1, 2}, 0, 0, 0, 0}};
  for (int component = 0; component < 3; ++component) {
    for (int coefficient = 1; coefficient <= kind.split_coefficients; ++coefficient)
      scans.push_back({1, {component}, coefficient, coefficient, 0, 0});
    if (kind.split_coefficients < 63) scans.push_back({1, {component}, kind.split_coefficients + 1, 63, 0, 0});
  }
  if (kind.split_coefficients > 0) jpeg.scan_info = scans.data(), jpeg.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&jpeg, TRUE);
  for (std::uint32_t row = 0; row < height; ++row) {
    JSAMPROW start = rows.data() + std::size_t{row} * width * static_cast<std::size_t>(kind.components);
    jpeg_write_scanlines(&jpeg, &start, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<const char*>(buffer), size);
  jpeg_destroy_compress(&jpeg);
  std::free(buffer);
  return bytes;
}

// A PNG whose header says another size, with the checksum that belongs to it.
inline std::string with_png_size(std::string png, std::uint32_t height, std::uint32_t width) {
  const auto put = [&](std::size_t at, std::uint32_t number) {
    for (int byte = 0; byte < 4; ++byte)
      png[at + static_cast<std::size_t>(byte)] = static_cast<char>(number >> (24 - 8 * byte));
  };
  put(16, width), put(20, height);
  put(29, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17)));
  return png;
}

// A picture in which no two pixels and no two channels are alike; up to 16 × 16.
inline Image counted_image(std::int64_t height, std::int64_t width) {
  Image image{height, width, {}};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (const std::int64_t value : {16 * y + x, 255 - 16 * y - x, (5 * y + 11 * x) % 256})
        image.pixels.push_back(static_cast<std::uint8_t>(value));
  return image;
}

// Makes the checksums of a PNG's parts right, so that changes are not refused for them.
inline void repair_checksums(std::string& bytes) {
  const auto byte = [&](std::size_t at) { return std::uint32_t{static_cast<unsigned char>(bytes[at])}; };
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    const std::size_t length = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (length > bytes.size() - at - 12) break;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + at + 4, static_cast<uInt>(length + 4));
    for (std::size_t digit = 0; digit < 4; ++digit)
      bytes[at + 8 + length + digit] = static_cast<char>(sum >> (24 - 8 * digit));
    at += 12 + length;
  }
}

}  // namespace cogwheel::tasks::images
