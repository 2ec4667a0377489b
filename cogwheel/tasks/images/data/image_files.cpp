#include "cogwheel/tasks/images/data/image_files.h"

#include <algorithm>
#include <fstream>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/tasks/images/data/image_formats.h"

namespace cogwheel::tasks::images {
namespace {

using namespace std::string_view_literals;

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"sv); }
bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"sv); }

// What a picture that is neither may be.
std::string other_format(std::string_view bytes) {
  if (bytes.empty()) return "an empty file";
  if (bytes.starts_with("GIF8")) return "a GIF";
  if (bytes.starts_with("BM")) return "a BMP";
  if (bytes.starts_with("RIFF") && bytes.substr(std::min<std::size_t>(bytes.size(), 8)).starts_with("WEBP"))
    return "a WebP";
  if (bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv)) return "a TIFF";
  if (bytes.starts_with("P5") || bytes.starts_with("P6")) return "a PGM or PPM";
  std::string start = "what begins with the bytes";
  for (const char byte : bytes.substr(0, 4)) {
    const char* const digits = "0123456789abcdef";
    start += {' ', digits[static_cast<unsigned char>(byte) >> 4], digits[byte & 15]};
  }
  return start;
}

Error not_an_image(std::string_view bytes, const std::string& what) {
  return Error(expected_got(what, "a PNG or JPEG", other_format(bytes)));
}

// The whole file, unless it is far too long for a picture.
std::string read_image_file(const std::filesystem::path& path) {
  std::error_code problem;  // read_file reports it
  const auto bytes = std::filesystem::file_size(path, problem);
  if (!problem && bytes > static_cast<std::uintmax_t>(max_image_bytes))
    throw Error(expected_got(path.string(), "a picture of at most 1 GiB", std::to_string(bytes) + " bytes"));
  return read_file(path);
}

}  // namespace

void expect_image_size(const ImageSize& size, const std::string& what) {
  if (size.height < 1 || size.width < 1 || size.height > max_image_side || size.width > max_image_side ||
      size.height * size.width > max_image_pixels)
    throw Error(expected_got(what, "a picture of at most 64 megapixels, and 65,500 a side",
                             std::to_string(size.width) + " × " + std::to_string(size.height)));
}

Image decode_image(std::string_view bytes, const std::string& what) {
  if (is_png(bytes)) return decode_png(bytes, what);
  if (is_jpeg(bytes)) return decode_jpeg(bytes, what);
  throw not_an_image(bytes, what);
}

Image read_image(const std::filesystem::path& path) { return decode_image(read_image_file(path), path.string()); }

ImageSize image_size(std::string_view bytes, const std::string& what) {
  if (is_png(bytes)) return png_size(bytes, what);
  if (is_jpeg(bytes)) return jpeg_size(bytes, what);
  throw not_an_image(bytes, what);
}

ImageSize read_image_size(const std::filesystem::path& path) {
  // 4 KiB hold the header of most pictures, 256 KiB that of a photograph with its preview.
  for (const std::size_t length : {std::size_t{1} << 12, std::size_t{1} << 18}) {
    std::string start(length, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), static_cast<std::streamsize>(length));
    start.resize(static_cast<std::size_t>(file.gcount()));
    if (start.size() < length) break;
    try {
      return image_size(start, path.string());
    } catch (const Error&) {  // more of it may be read; if not, the whole file says why
    }
  }
  return image_size(read_image_file(path), path.string());
}

}  // namespace cogwheel::tasks::images
