// The files that a corpus is prepared from, in an order that is the same on every machine.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/text/corpus.h"

namespace cogwheel::text {

enum class SourceForm {
  text,       // the file is one document
  json_lines  // each line is an object, of which one field is a document
};
enum class Compression { none, gzip, zstandard };

// By its name: .jsonl, .ndjson and .json are JSON lines, anything else is text; each may be followed by .gz or .zst.
struct Source {
  std::filesystem::path path = {};
  std::string name = {};  // of a file that was given, its file name; of one in a folder, from the folder's name on
  SourceForm form = SourceForm::text;
  Compression compression = Compression::none;
  std::int64_t bytes = 0;    // of the file
  std::int64_t changed = 0;  // when, in nanoseconds as the file system counts them
};

struct Sources {
  std::vector<Source> files;
  std::vector<LeftOut> left_out;  // by name, as in Source
};

// Files are taken as given, folders with every regular file below them, sorted by relative path, but for what
// load_corpus leaves out: hidden files, binary files and folders that this program filled. Throws Error for a path that
// is missing or unreadable, or where there are no files.
Sources find_sources(const std::vector<std::filesystem::path>& paths);

// The form and compression that a name says.
Source described_source(std::filesystem::path path, std::string name);

}  // namespace cogwheel::text
