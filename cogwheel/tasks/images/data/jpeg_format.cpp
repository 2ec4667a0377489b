// JPEG by libjpeg-turbo. Errors leave it by longjmp, as in png_format.cpp.
#include <csetjmp>
#include <cstdio>  // jpeglib.h expects it

#include <jpeglib.h>

#include <jerror.h>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/images/data/image_formats.h"

namespace cogwheel::tasks::images {
namespace {

// A progressive JPEG has about ten scans, each of which goes through the whole picture; the format allows thousands.
constexpr int max_jpeg_scans = 100;

class JpegReader {
 public:
  explicit JpegReader(std::string_view bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = fail;
    errors_.emit_message = warn;
    jpeg_.client_data = this;
    progress_.progress_monitor = count_scans;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }

  // Each returns false where something is wrong, and message() says what.
  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  bool read_rows(std::uint8_t* pixels) {
    if (setjmp(jump_) != 0) return false;
    jpeg_.progress = &progress_;
    jpeg_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW row = pixels + std::size_t{jpeg_.output_scanline} * jpeg_.output_width * 3;
      jpeg_read_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  ImageSize size() const { return {jpeg_.image_height, jpeg_.image_width}; }
  // Empty where its colours can be read.
  std::string other_colors() const {
    switch (jpeg_.jpeg_color_space) {
      case JCS_GRAYSCALE:
      case JCS_YCbCr:
      case JCS_RGB:
        return "";
      case JCS_CMYK:
        return "CMYK";
      case JCS_YCCK:
        return "YCCK";
      default:
        return std::to_string(jpeg_.num_components) + " components of unknown colours";
    }
  }
  std::string message() const { return message_; }

 private:
  static JpegReader& reader_of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }
  [[noreturn]] static void fail(j_common_ptr jpeg) {
    JpegReader& self = reader_of(jpeg);
    jpeg->err->format_message(jpeg, self.message_);
    std::longjmp(self.jump_, 1);
  }
  // What libjpeg goes on after; where pixels are lost, it is an error here.
  static void warn(j_common_ptr jpeg, int level) {
    const int code = jpeg->err->msg_code;
    const bool harmless = level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
                          code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC;
    if (!harmless) fail(jpeg);
  }
  static void count_scans(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= max_jpeg_scans) return;
    JpegReader& self = reader_of(jpeg);
    std::snprintf(self.message_, sizeof self.message_, "more than %d scans", max_jpeg_scans);
    std::longjmp(self.jump_, 1);
  }

  std::string_view bytes_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_;
  char message_[JMSG_LENGTH_MAX] = "";
};

void read_jpeg_header(JpegReader& reader, const std::string& what) {
  if (!reader.read_header()) throw Error(expected_got(what, "a JPEG that can be decoded", reader.message()));
  expect_image_size(reader.size(), what);
  if (const std::string colors = reader.other_colors(); !colors.empty())
    throw Error(expected_got(what, "a JPEG of RGB, YCbCr or grey", colors));
}

}  // namespace

ImageSize jpeg_size(std::string_view bytes, const std::string& what) {
  JpegReader reader(bytes);
  read_jpeg_header(reader, what);
  return reader.size();
}

Image decode_jpeg(std::string_view bytes, const std::string& what) {
  JpegReader reader(bytes);
  read_jpeg_header(reader, what);
  Image image{reader.size().height, reader.size().width, {}};
  image.pixels.resize(static_cast<std::size_t>(image.height * image.width * 3));
  if (!reader.read_rows(image.pixels.data()))
    throw Error(expected_got(what, "a JPEG that can be decoded", reader.message()));
  return image;
}

}  // namespace cogwheel::tasks::images
