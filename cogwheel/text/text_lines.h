// The lines of a text file, compressed by gzip or not.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel::text {

struct TextLines {
  std::vector<std::string> lines;  // without the characters that end them, \n or \r\n
  std::int64_t bytes = 0;          // of the text, not of the compressed file
  std::string sha256;              // of those bytes, so that compressing a file changes nothing
};

// A byte order mark at the start is left out. Throws Error that names the file, and for text the line, where it cannot
// be read, is compressed but damaged or cut off, is not UTF-8, or has a NUL byte.
TextLines read_text_lines(const std::filesystem::path& path);

}  // namespace cogwheel::text
