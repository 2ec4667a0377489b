// text.json: the files that a text was read from, so that a later run can report what has changed.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/text/dataset.h"

namespace cogwheel::text {

// {"name", "bytes", "sha256", "files": [{"path", "bytes", "sha256"}], "left_out": [{"path", "what"}]}
std::string text_record(const Dataset& data);
// The same for files that were read without a corpus.
std::string text_record(const std::string& name, std::int64_t bytes, const std::string& sha256,
                        const std::vector<CorpusFile>& files, const std::vector<LeftOut>& left_out = {});

// The first of the files that differs from the record at `path`: "a.txt has changed". Empty where none differs or the
// record cannot be read.
std::string first_change(const std::filesystem::path& path, const std::vector<CorpusFile>& files);

// For display, in one line: "2 binary files (a.png, b.gz) and 1 run (runs/one)". Empty where nothing was left out.
std::string left_out_text(const Dataset& data);

}  // namespace cogwheel::text
