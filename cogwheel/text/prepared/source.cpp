#include "cogwheel/text/prepared/source.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/text/corpus_builder.h"
#include "cogwheel/text/prepared/source_stream.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

bool is_visible(const fs::path& path) { return !path.filename().string().starts_with('.'); }

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

Source measured_source(const fs::path& path, std::string name) {
  Source source = described_source(path, std::move(name));
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0)
    throw Error(expected_got(path.string(), "a file that can be read", std::strerror(errno)));
  source.bytes = facts.st_size;
  source.changed = std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
  return source;
}

// As load_corpus decides it, but by the start alone.
bool begins_as_binary(const Source& source) {
  constexpr std::size_t start = 1 << 16;
  SourceStream stream(source);
  std::size_t read = 0;
  while (read < start) {
    const std::string_view piece = stream.next().substr(0, start - read);
    if (piece.empty()) return false;
    if (piece.find('\0') != std::string_view::npos) return true;
    read += piece.size();
  }
  return false;
}

}  // namespace

Source described_source(fs::path path, std::string name) {
  Source source{.path = std::move(path), .name = std::move(name)};
  fs::path shown = source.path.filename();
  if (shown.extension() == ".gz") source.compression = Compression::gzip;
  if (shown.extension() == ".zst") source.compression = Compression::zstandard;
  if (source.compression != Compression::none) shown = shown.stem();
  const fs::path ending = shown.extension();
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") source.form = SourceForm::json_lines;
  return source;
}

Sources find_sources(const std::vector<fs::path>& paths) {
  if (paths.empty()) throw UsageError(expected_got("sources", "files or folders", "none"));
  Sources sources;
  for (const fs::path& given : paths) {
    std::error_code problem;
    const fs::file_status status = fs::status(given, problem);
    if (!fs::exists(status))
      throw Error(expected_got("sources", "a file or folder", given.empty() ? "" : "none at " + given.string()));
    const std::string top = without_slash(fs::absolute(given).lexically_normal()).filename().string();
    if (!fs::is_directory(status)) {
      sources.files.push_back(measured_source(given, top));
      continue;
    }
    if (const std::string kind = folder_kind(given); !kind.empty())
      throw Error(expected_got(given.string(), "a folder with text", "the folder of a " + kind));
    const auto name_of = [&](const fs::path& path) {
      return (fs::path(top) / path.lexically_relative(given)).generic_string();
    };
    const auto leave_out = [&](const fs::path& path, const std::string& what) {
      sources.left_out.push_back({name_of(path), what});
    };
    const auto enter = [&](const fs::path& path) {
      if (!is_visible(path)) return false;
      const std::string kind = folder_kind(path);
      if (!kind.empty()) leave_out(path, kind);
      return kind.empty();
    };
    const auto broken = [&](const fs::path& link) {
      if (is_visible(link)) leave_out(link, "broken link");
    };
    for (const fs::path& path : files_below(given, enter, is_visible, broken)) {
      Source source = measured_source(path, name_of(path));
      if (source.form == SourceForm::text && begins_as_binary(source))
        leave_out(path, "binary file");
      else
        sources.files.push_back(std::move(source));
    }
  }
  if (sources.files.empty())
    throw Error(expected_got(paths.front().string(), "a folder with text",
                             sources.left_out.empty() ? "one without files" : "nothing but what is left out"));
  return sources;
}

}  // namespace cogwheel::text
