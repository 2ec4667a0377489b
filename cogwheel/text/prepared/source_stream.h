// The text of one source, piece by piece, and the hash of its file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/text/prepared/source.h"

namespace cogwheel::text {

class SourceStream {
 public:
  // Throws Error where the file cannot be opened.
  explicit SourceStream(const Source& source);
  SourceStream(const SourceStream&) = delete;
  SourceStream& operator=(const SourceStream&) = delete;
  ~SourceStream();

  // The next piece, decompressed, which stays until the next call; empty at the end. Throws Error that names the file
  // where it cannot be read, or is compressed and damaged or cut off.
  std::string_view next();
  // Of the file as it lies there, once all of it was read.
  std::string sha256() { return hash_.digits(); }
  std::int64_t bytes_read() const { return read_; }

 private:
  class Decompressor;
  class Gzip;
  class Zstandard;
  std::string_view read_piece();

  std::filesystem::path path_;
  int descriptor_;
  Sha256 hash_;
  std::int64_t read_ = 0;
  std::string piece_;
  std::unique_ptr<Decompressor> decompressor_;  // none: the file is text
};

}  // namespace cogwheel::text
