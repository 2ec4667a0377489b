// PNG by libpng. It leaves its functions by longjmp where something is wrong, so functions that call it are members
// without objects that would have to be destroyed; memory is owned by the classes around them.
#include <png.h>

#include <array>
#include <cstring>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/images/data/image_formats.h"

namespace cogwheel::tasks::images {
namespace {

// The first 255 bytes of a message of libpng.
class PngMessage {
 public:
  void keep(const char* message) {
    std::strncpy(text_.data(), message, text_.size() - 1);
    text_.back() = '\0';
  }
  std::string text() const { return text_.data(); }

 private:
  std::array<char, 256> text_{"too little memory"};  // what stays where libpng has none to begin with
};

void ignore_png_warning(png_structp, png_const_charp) {}

class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore_png_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Each returns false where something is wrong, and message() says what.
  bool read_header() {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, read);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Texts, profiles and the like are skipped, not unpacked; transparency is none of them.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // the caller's message is a better one
    png_read_info(png_, info_);
    return true;
  }
  // RGB or RGBA of 8 bits from here on.
  bool choose_form() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read_rows(std::uint8_t* pixels) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    const png_uint_32 height = png_get_image_height(png_, info_);
    for (int pass = 0; pass < passes_; ++pass)
      for (png_uint_32 row = 0; row < height; ++row) png_read_row(png_, pixels + row * row_bytes, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  ImageSize size() const { return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)}; }
  std::int64_t channels() const { return png_get_channels(png_, info_); }
  std::string message() const { return message_.text(); }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    static_cast<PngReader*>(png_get_error_ptr(png))->message_.keep(message);
    png_longjmp(png, 1);
  }
  static void read(png_structp png, png_bytep to, png_size_t count) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self.rest_.size()) png_error(png, "the end of the file before that of the picture");
    std::memcpy(to, self.rest_.data(), count);
    self.rest_.remove_prefix(count);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  std::string_view rest_;
  PngMessage message_;
};

class PngWriter {
 public:
  PngWriter() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore_png_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }

  bool write(const Image& image) {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_write_fn(png_, this, append, nullptr);
    png_set_compression_level(png_, 9);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
                 PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    for (std::int64_t row = 0; row < image.height; ++row)
      png_write_row(png_, image.pixels.data() + row * image.width * 3);
    png_write_end(png_, info_);
    return true;
  }

  std::string& bytes() { return bytes_; }
  std::string message() const { return message_.text(); }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    static_cast<PngWriter*>(png_get_error_ptr(png))->message_.keep(message);
    png_longjmp(png, 1);
  }
  static void append(png_structp png, png_bytep from, png_size_t count) {
    auto& self = *static_cast<PngWriter*>(png_get_io_ptr(png));
    bool full = false;
    try {
      self.bytes_.append(reinterpret_cast<const char*>(from), count);
    } catch (const std::bad_alloc&) {
      full = true;  // no jump out of a handler
    }
    if (full) png_error(png, "too little memory");
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string bytes_;
  PngMessage message_;
};

Error undecodable_png(const std::string& what, const PngReader& reader) {
  return Error(expected_got(what, "a PNG that can be decoded", reader.message()));
}

// RGBA over white, rounded; the result takes the first three quarters.
void lay_on_white(std::vector<std::uint8_t>& pixels) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < pixels.size(); from += 4)
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const unsigned alpha = pixels[from + 3];
      pixels[to++] =
          static_cast<std::uint8_t>((2 * (pixels[from + channel] * alpha + 255 * (255 - alpha)) + 255) / 510);
    }
  pixels.resize(to);
}

}  // namespace

ImageSize png_size(std::string_view bytes, const std::string& what) {
  PngReader reader(bytes);
  if (!reader.read_header()) throw undecodable_png(what, reader);
  expect_image_size(reader.size(), what);
  return reader.size();
}

Image decode_png(std::string_view bytes, const std::string& what) {
  PngReader reader(bytes);
  if (!reader.read_header()) throw undecodable_png(what, reader);
  const ImageSize size = reader.size();
  expect_image_size(size, what);
  if (!reader.choose_form()) throw undecodable_png(what, reader);
  Image image{size.height, size.width, {}};
  image.pixels.resize(static_cast<std::size_t>(size.height * size.width * reader.channels()));
  if (!reader.read_rows(image.pixels.data())) throw undecodable_png(what, reader);
  if (reader.channels() == 4) lay_on_white(image.pixels);
  return image;
}

std::string encode_png(const Image& image) {
  expect_image_size({image.height, image.width}, "PNG");
  if (std::ssize(image.pixels) != image.height * image.width * 3)
    throw Error(expected_got("PNG", std::to_string(image.height * image.width * 3) + " bytes of pixels",
                             std::to_string(image.pixels.size())));
  PngWriter writer;
  if (!writer.write(image)) throw Error(expected_got("PNG", "a picture that can be encoded", writer.message()));
  return std::move(writer.bytes());
}

}  // namespace cogwheel::tasks::images
