#include "cogwheel/tasks/handwriting/stroke_files.h"

#include <algorithm>
#include <map>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/corpus_builder.h"

namespace cogwheel::tasks::handwriting {
namespace {
namespace fs = std::filesystem;

std::int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

class StrokeSetReader {
 public:
  StrokeSetReader(const fs::path& path, const StrokeFileOptions& options) : options_(options) {
    set_.name = (path.has_filename() ? path.filename() : path.parent_path().filename()).string();
  }

  std::string read(const fs::path& path) {
    std::string contents = read_file(path);
    set_.files.push_back({path, static_cast<std::int64_t>(contents.size()), sha256(contents)});
    set_.bytes += std::ssize(contents);
    hash_.add(set_.files.back().sha256);
    return contents;
  }

  void take(StrokeSequence sequence, std::string origin) {
    if (std::ssize(sequence.points) < 2) {
      ++set_.unused.no_strokes;
    } else if (std::ssize(sequence.points) > options_.max_points ||
               code_points(sequence.text) > options_.max_characters) {
      ++set_.unused.too_long;
    } else {
      set_.sequences.push_back(std::move(sequence));
      set_.origins.push_back(std::move(origin));
    }
  }

  void read_quick_draw(const fs::path& path) {
    const std::string contents = read(path);
    std::int64_t number = 0;
    for (std::size_t begin = 0; begin < contents.size();) {
      const std::size_t end = std::min(contents.find('\n', begin), contents.size());
      const std::string line = contents.substr(begin, end - begin);
      begin = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const std::string place = path.string() + " line " + std::to_string(number);
      StrokeSequence drawing = parse_quick_draw(line, place, options_.words_as_text);
      std::string content = content_of(drawing);
      take(std::move(drawing), std::move(content));
    }
  }

  // `lines` by form, in order; `transcripts` by form, or null where there is none.
  void read_form(const std::string& form, const std::vector<fs::path>& lines, const fs::path* transcript) {
    std::vector<std::string> texts;
    bool readable = true;
    if (transcript != nullptr) {
      const std::string contents = read(*transcript);
      readable = unless_broken([&] {
        texts = transcript->extension() == ".txt" ? parse_transcript(contents, transcript->string())
                                                  : parse_original_transcript(contents, transcript->string());
      });
    }
    for (std::size_t index = 0; index < lines.size(); ++index) {
      const std::string contents = read(lines[index]);
      StrokeSequence sequence;
      if (!readable || !unless_broken([&] { sequence = parse_line_strokes(contents, lines[index].string()); })) {
        ++set_.unused.broken;
      } else if (transcript == nullptr) {
        ++set_.unused.no_transcript;
      } else if (texts.size() != lines.size()) {
        ++set_.unused.transcripts_differ;
      } else {
        sequence.text = texts[index];
        take(std::move(sequence), form);
      }
    }
  }

  // Whether it could be parsed.
  template <class Parse>
  bool unless_broken(Parse parse) {
    try {
      parse();
      return true;
    } catch (const Error& error) {
      if (set_.unused.first_broken.empty()) set_.unused.first_broken = error.what();
      return false;
    }
  }

  StrokeSet finish(const fs::path& path) && {
    if (set_.sequences.empty())
      throw Error(expected_got(path.string(), "strokes to learn from",
                               set_.unused.total() == 0 ? "none" : "none but " + set_.unused.text()));
    set_.sha256 = hash_.digits();
    return std::move(set_);
  }

 private:
  StrokeFileOptions options_;
  StrokeSet set_;
  Sha256 hash_;
};

// The form of a line's file, a01-000u of a01-000u-01; empty for other names.
std::string form_of(const fs::path& path) {
  const std::string stem = path.stem().string();
  const std::size_t dash = stem.rfind('-');
  if (path.extension() != ".xml" || dash == std::string::npos || dash == 0 || dash + 1 == stem.size()) return "";
  return stem.find_first_not_of("0123456789", dash + 1) == std::string::npos ? stem.substr(0, dash) : "";
}

// That of original/a01/a01-000/strokesu.xml, which holds the same text.
std::string form_of_original(const fs::path& path) {
  const std::string stem = path.stem().string(), start = "strokes";
  return path.extension() == ".xml" && stem.starts_with(start)
             ? path.parent_path().filename().string() + stem.substr(start.size())
             : "";
}

}  // namespace

std::string UnusedStrokes::text() const {
  std::string text;
  const auto add = [&](std::int64_t count, const std::string& what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(transcripts_differ, "of forms with another number of transcripts");
  add(no_transcript, "without transcript");
  add(no_strokes, "without strokes");
  add(too_long, "too long");
  add(broken, "broken (" + first_broken + ")");
  return text;
}

StrokeSet load_strokes(const fs::path& path, const StrokeFileOptions& options) {
  std::error_code problem;
  if (!fs::exists(path, problem))
    throw Error(expected_got("strokes", "a file or folder", path.empty() ? "" : "none at " + path.string()));
  StrokeSetReader reader(path, options);
  if (!fs::is_directory(path)) {
    reader.read_quick_draw(path);
    return std::move(reader).finish(path);
  }
  const auto visible = [](const fs::path& each) { return !each.filename().string().starts_with('.'); };
  const std::vector<fs::path> files = text::files_below(path, visible, visible);
  std::map<std::string, std::vector<fs::path>> forms;
  std::map<std::string, fs::path> transcripts;
  std::vector<fs::path> drawings;
  for (const fs::path& file : files) {
    if (file.extension() == ".ndjson") drawings.push_back(file);
    if (const std::string form = form_of(file); !form.empty()) forms[form].push_back(file);
    // The transcript by itself is the better one: it was corrected.
    if (file.extension() == ".txt") transcripts[file.stem().string()] = file;
    if (const std::string form = form_of_original(file); !form.empty()) transcripts.emplace(form, file);
  }
  if (forms.empty() == drawings.empty())
    throw Error(expected_got(path.string(),
                             "IAM-OnDB (lineStrokes/…/a01-000u-01.xml, ascii/…/a01-000u.txt) or .ndjson files",
                             forms.empty() ? "a folder with neither" : "both"));
  for (const fs::path& drawing : drawings) reader.read_quick_draw(drawing);
  for (const auto& [form, lines] : forms) {
    const auto found = transcripts.find(form);
    reader.read_form(form, lines, found == transcripts.end() ? nullptr : &found->second);
  }
  return std::move(reader).finish(path);
}

}  // namespace cogwheel::tasks::handwriting
