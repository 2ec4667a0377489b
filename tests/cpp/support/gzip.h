// Writes compressed files for tests.
#pragma once
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace cogwheel {

// Compresses a text as the gzip program does.
inline std::string gzipped(const std::string& text, const std::filesystem::path& beside) {
  const gzFile file = ::gzopen(beside.c_str(), "wb");
  ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
  std::ifstream written(beside, std::ios::binary);
  std::ostringstream bytes;
  bytes << written.rdbuf();
  return bytes.str();
}

}  // namespace cogwheel
