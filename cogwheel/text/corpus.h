// Text from files and folders, in an order that is the same on every machine.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel::text {

// Where a file's bytes lie in the text of a corpus.
struct CorpusFile {
  std::filesystem::path path;
  std::int64_t offset, bytes;
  std::string sha256;  // of those bytes
};

// A path in a given folder that is not part of the text.
struct LeftOut {
  std::filesystem::path path;
  std::string
      what;  // "binary file", "duplicate file", or the kind of a folder that this program filled: "run", "comparison"
};

struct Corpus {
  std::string name;  // for display: the file or folder, or "Python 3.11 standard library"
  std::string text;  // the files one after another
  std::string sha256;
  std::vector<CorpusFile> files;
  std::vector<LeftOut> left_out = {};

  std::int64_t bytes() const { return static_cast<std::int64_t>(text.size()); }
};

// Files are taken as given, folders with every regular file below them, sorted by relative path. Left out are hidden
// files and folders, binary files (those with a 0 byte) and folders that this program filled: its output must not
// change the text that it was computed from. A file with the bytes of one before it is left out too, also where it is
// given, for the one would be learned from and the other held out; what differs in a byte is no such copy. Stops at
// `byte_limit` bytes (0: none), at the end of a UTF-8 character. Throws Error for a path that is missing, unreadable or
// empty.
Corpus load_corpus(const std::vector<std::filesystem::path>& paths, std::int64_t byte_limit = 0);

// The source files of the standard library of the python3 beside the executable, else of the one on PATH: *.py sorted
// by relative path, without tests, site-packages, dist-packages and __pycache__. Two copies of at most 100 bytes, which
// Python 3.11 has, stay in it, so that recorded results keep their text.
Corpus load_python_standard_library(std::int64_t byte_limit);

}  // namespace cogwheel::text
