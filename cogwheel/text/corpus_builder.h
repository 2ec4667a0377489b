// The common part of corpus loaders.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/text/corpus.h"

namespace cogwheel::text {

class CorpusBuilder {
 public:
  CorpusBuilder(std::string name, std::int64_t byte_limit) : limit_(static_cast<std::size_t>(byte_limit)) {
    corpus_.name = std::move(name);
  }
  // False once the limit is reached.
  bool add(const std::filesystem::path& path) { return add(path, Kinds{}); }
  // The same, but what repeats a file that was read is left out.
  bool add_once(const std::filesystem::path& path) { return add(path, {.once = true}); }
  // The same, but a binary file is left out too.
  bool add_text(const std::filesystem::path& path) { return add(path, {.once = true, .only_text = true}); }
  void leave_out(const std::filesystem::path& path, std::string what) {
    corpus_.left_out.push_back({path, std::move(what)});
  }
  bool empty() const { return corpus_.text.empty(); }
  // Throws Error where there is no text.
  Corpus finish() &&;

 private:
  struct Kinds {
    bool once = false, only_text = false;
  };
  bool add(const std::filesystem::path& path, const Kinds& kinds);
  // Whether a file, of which so many bytes with this hash were read, holds the same as one before it.
  bool repeats(const std::filesystem::path& path, std::size_t bytes, const std::string& digest) const;

  Corpus corpus_;
  std::set<std::string> read_;  // SHA-256 of files that were read to their end
  std::size_t limit_;
};

// The regular files below a folder that the filters for files and folders accept, sorted by relative path. Links to
// files are taken and links to folders are not followed; links that lead nowhere, such as to themselves, are told to
// `broken`.
std::vector<std::filesystem::path> files_below(
    const std::filesystem::path& folder, const std::function<bool(const std::filesystem::path&)>& enter,
    const std::function<bool(const std::filesystem::path&)>& take,
    const std::function<void(const std::filesystem::path&)>& broken = [](const auto&) {});

}  // namespace cogwheel::text
