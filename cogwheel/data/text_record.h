// text.json: the files that a text was read from, so that a later run can report what has changed.
#pragma once
#include <filesystem>
#include <string>

#include "cogwheel/data/dataset.h"

namespace cogwheel {

// {"name", "bytes", "sha256", "files": [{"path", "bytes", "sha256"}], "left_out": [{"path", "what"}]}
std::string text_record(const Dataset& data);

// The first file of the corpus that differs from the record at `path`: "a.txt has changed". Empty where none
// differs or the record cannot be read.
std::string first_change(const std::filesystem::path& path, const Corpus& corpus);

// For display, in one line: "2 binary files (a.png, b.gz) and 1 run (runs/one)". Empty where nothing was left out.
std::string left_out_text(const Dataset& data);

}  // namespace cogwheel
