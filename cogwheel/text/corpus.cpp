#include "cogwheel/text/corpus.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/text/corpus_builder.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

// Empty where it cannot be read: reading the whole file reports that.
std::string start_of(const fs::path& path) {
  std::string start(1 << 16, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  return start;
}

}  // namespace

bool CorpusBuilder::repeats(const fs::path& path, std::size_t bytes, const std::string& digest) const {
  std::error_code problem;
  const std::uintmax_t size = fs::file_size(path, problem);
  if (problem || size <= bytes) return read_.contains(digest);
  // It is cut at the limit. A file larger than all that was read repeats nothing.
  return size <= corpus_.text.size() && read_.contains(sha256(read_file(path)));
}

bool CorpusBuilder::add(const fs::path& path, const Kinds& kinds) {
  const bool only_text = kinds.only_text;
  // The start nearly always decides, and a folder may hold files larger than memory.
  const bool binary = only_text && start_of(path).find('\0') != std::string::npos;
  // One byte more than there is room for says whether the file goes on.
  const std::size_t room_left = limit_ - corpus_.text.size();
  std::string contents = binary ? "" : limit_ == 0 ? read_file(path) : read_file_start(path, room_left + 1);
  if (binary || (only_text && contents.find('\0') != std::string::npos)) {
    leave_out(path, "binary file");
    return true;
  }
  std::string digest = sha256(contents);
  // One copy could be learned from and the other be held out.
  if (kinds.once && !contents.empty() && repeats(path, contents.size(), digest)) {
    leave_out(path, "duplicate file");
    return true;
  }
  bool room = true;
  if (const std::size_t left = limit_ - corpus_.text.size(); limit_ > 0 && contents.size() >= left) {
    room = false;
    std::size_t end = left;
    // Back to the start of a UTF-8 character; text in another encoding loses three bytes at most.
    for (int back = 0; back < 3 && end > 0 && end < contents.size() && (contents[end] & 0xc0) == 0x80; ++back) --end;
    if (end < contents.size()) {
      contents.resize(end);
      digest = sha256(contents);
    }
  }
  if (!contents.empty()) {
    corpus_.files.push_back({path, corpus_.bytes(), static_cast<std::int64_t>(contents.size()), digest});
    if (room) read_.insert(digest);
  }
  corpus_.text += contents;
  return room;
}

Corpus CorpusBuilder::finish() && {
  if (corpus_.text.empty())
    throw Error(
        expected_got(corpus_.name, "text",
                     corpus_.left_out.empty() ? "nothing: every file is empty" : "nothing but what is left out"));
  corpus_.sha256 = sha256(corpus_.text);
  std::sort(corpus_.left_out.begin(), corpus_.left_out.end(),
            [](const LeftOut& a, const LeftOut& b) { return a.path < b.path; });
  return std::move(corpus_);
}

std::vector<fs::path> files_below(const fs::path& folder, const std::function<bool(const fs::path&)>& enter,
                                  const std::function<bool(const fs::path&)>& take,
                                  const std::function<void(const fs::path&)>& broken) {
  std::vector<std::string> relative;
  std::error_code problem;
  fs::recursive_directory_iterator entries(folder, problem);
  for (; !problem && entries != fs::recursive_directory_iterator(); entries.increment(problem)) {
    std::error_code unknown;
    const fs::file_status status = entries->status(unknown);
    if (!fs::exists(status)) {
      broken(entries->path());
      continue;
    }
    if (fs::is_directory(status) && !entries->is_symlink(unknown) && !enter(entries->path()))
      entries.disable_recursion_pending();
    if (fs::is_regular_file(status) && take(entries->path()))
      relative.push_back(entries->path().lexically_relative(folder).generic_string());
  }
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be read", problem.message()));
  std::sort(relative.begin(), relative.end());
  std::vector<fs::path> files;
  for (const auto& name : relative) files.push_back(folder / name);
  return files;
}

Corpus load_corpus(const std::vector<fs::path>& paths, std::int64_t byte_limit) {
  if (paths.empty()) throw UsageError(expected_got("text", "files or folders", "none"));
  std::string name;
  for (const auto& path : paths) {
    const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
    name += (name.empty() ? "" : ", ") + last.string();
  }
  CorpusBuilder builder(name, byte_limit);
  const auto visible = [](const fs::path& path) { return !path.filename().string().starts_with('.'); };
  const auto enter = [&](const fs::path& path) {
    if (!visible(path)) return false;
    std::string kind = folder_kind(path);
    if (!kind.empty()) builder.leave_out(path, kind);
    return kind.empty();
  };
  for (const auto& path : paths) {
    std::error_code problem;
    const fs::file_status status = fs::status(path, problem);
    if (!fs::exists(status))
      throw Error(expected_got("text", "a file or folder", path.empty() ? "" : "none at " + path.string()));
    if (!fs::is_directory(status)) {
      if (!builder.add_once(path)) break;
      if (builder.empty()) throw Error(expected_got(path.string(), "text", "an empty file"));
      continue;
    }
    if (const std::string kind = folder_kind(path); !kind.empty())
      throw Error(expected_got(path.string(), "a folder with text", "the folder of a " + kind));
    const auto broken = [&](const fs::path& link) {
      if (visible(link)) builder.leave_out(link, "broken link");
    };
    const auto files = files_below(path, enter, visible, broken);
    if (files.empty()) throw Error(expected_got(path.string(), "a folder with text", "one without files"));
    if (!std::all_of(files.begin(), files.end(), [&](const fs::path& file) { return builder.add_text(file); })) break;
  }
  return std::move(builder).finish();
}

}  // namespace cogwheel::text
