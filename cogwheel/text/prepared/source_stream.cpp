#include "cogwheel/text/prepared/source_stream.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <new>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

constexpr std::size_t bytes_of_piece = 1 << 18;

[[noreturn]] void refuse_source(const std::filesystem::path& path, const std::string& expected,
                                const std::string& got) {
  throw Error(expected_got(path.string(), expected, got));
}

}  // namespace

class SourceStream::Decompressor {
 public:
  virtual ~Decompressor() = default;

  // What comes next of the text; empty at the end of the file, where `input` gives nothing more.
  std::string_view next(const std::filesystem::path& path, const std::function<std::string_view()>& input) {
    for (;;) {
      if (rest_.empty() && !full_) {
        rest_ = input();
        if (rest_.empty()) {
          if (within_) refuse_source(path, "a whole compressed file", "the start of one: it was cut off");
          return {};
        }
      }
      const std::size_t made = expand(path);
      full_ = made == out_.size();
      if (made > 0) return std::string_view(out_).substr(0, made);
    }
  }

 protected:
  // Takes from rest_, fills out_, says in within_ whether the compressed text goes on, and returns the bytes made.
  virtual std::size_t expand(const std::filesystem::path& path) = 0;

  std::string_view rest_;
  std::string out_ = std::string(bytes_of_piece, '\0');
  bool within_ = false;
  bool full_ = false;  // there may be more to come of what was taken
};

class SourceStream::Gzip : public Decompressor {
 public:
  Gzip() {
    constexpr int gzip_alone = 16 + MAX_WBITS;
    if (::inflateInit2(&state_, gzip_alone) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { ::inflateEnd(&state_); }

 private:
  std::size_t expand(const std::filesystem::path& path) override {
    // A file may hold several, one after another.
    if (!within_) {
      if (rest_.empty()) return 0;
      ::inflateReset(&state_);
      within_ = true;
    }
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    state_.avail_in = static_cast<uInt>(rest_.size());
    state_.next_out = reinterpret_cast<Bytef*>(out_.data());
    state_.avail_out = static_cast<uInt>(out_.size());
    const int result = ::inflate(&state_, Z_NO_FLUSH);
    rest_.remove_prefix(rest_.size() - state_.avail_in);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      refuse_source(path, "a file compressed by gzip",
                    std::string("damaged compression: ") + (state_.msg == nullptr ? "no reason given" : state_.msg));
    if (result == Z_STREAM_END) within_ = false;
    return out_.size() - state_.avail_out;
  }

  z_stream state_{};
};

class SourceStream::Zstandard : public Decompressor {
 public:
  Zstandard() : state_(::ZSTD_createDCtx(), ::ZSTD_freeDCtx) {
    if (!state_) throw std::bad_alloc();
    ::ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, window_log_max);
  }

 private:
  // As zstd's own command has it. The window is taken at once, and a frame of a few bytes can ask for more.
  static constexpr int window_log_max = 27;

  std::size_t expand(const std::filesystem::path& path) override {
    ZSTD_inBuffer in{rest_.data(), rest_.size(), 0};
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    const std::size_t result = ::ZSTD_decompressStream(state_.get(), &out, &in);
    if (::ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
      refuse_source(path, "a file that `zstd` writes with --long=" + std::to_string(window_log_max) + " or less",
                    "one whose window is larger");
    if (::ZSTD_isError(result) != 0)
      refuse_source(path, "a file compressed by zstd",
                    std::string("damaged compression: ") + ::ZSTD_getErrorName(result));
    // After the end of a frame nothing is left to come, so a call that takes and makes nothing says nothing of it.
    if (in.pos > 0 || out.pos > 0) within_ = result != 0;
    rest_.remove_prefix(in.pos);
    return out.pos;
  }

  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> state_;
};

SourceStream::SourceStream(const Source& source)
    : path_(source.path), descriptor_(::open(source.path.c_str(), O_RDONLY | O_CLOEXEC)), piece_(bytes_of_piece, '\0') {
  if (descriptor_ < 0) refuse_source(path_, "a file that can be read", std::strerror(errno));
  if (source.compression == Compression::gzip) decompressor_ = std::make_unique<Gzip>();
  if (source.compression == Compression::zstandard) decompressor_ = std::make_unique<Zstandard>();
}

SourceStream::~SourceStream() { ::close(descriptor_); }

std::string_view SourceStream::read_piece() {
  for (;;) {
    const ssize_t count = ::read(descriptor_, piece_.data(), piece_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_source(path_, "a file that can be read", std::strerror(errno));
    const std::string_view piece(piece_.data(), static_cast<std::size_t>(count));
    hash_.add(piece);
    read_ += count;
    return piece;
  }
}

std::string_view SourceStream::next() {
  if (!decompressor_) return read_piece();
  return decompressor_->next(path_, [this] { return read_piece(); });
}

}  // namespace cogwheel::text
