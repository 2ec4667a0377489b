// The binary version of CIFAR-10: www.cs.toronto.edu/~kriz/cifar.html.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/tasks/images/data/image_source.h"
#include "cogwheel/tasks/images/data/stored_images.h"

namespace cogwheel::tasks::images {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t cifar_side = 32, cifar_record = 1 + 3 * cifar_side * cifar_side;  // bytes: 3,073
constexpr std::array cifar_classes{"airplane", "automobile", "bird",  "cat",  "deer",
                                   "dog",      "frog",       "horse", "ship", "truck"};

// A file of records, open as long as it is used.
class CifarFile {
 public:
  explicit CifarFile(const fs::path& path) : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      const int problem = errno;
      if (descriptor_ >= 0) ::close(descriptor_);
      throw Error(expected_got(path.string(), "a file that can be read", std::strerror(problem)));
    }
    const std::int64_t bytes = S_ISREG(status.st_mode) ? std::int64_t{status.st_size} : 0;
    if (bytes == 0 || bytes % cifar_record != 0) {
      ::close(descriptor_);
      throw Error(expected_got(path.string(), "a CIFAR-10 file, of a multiple of 3,073 bytes", std::to_string(bytes)));
    }
    images_ = bytes / cifar_record;
  }
  CifarFile(const CifarFile&) = delete;
  CifarFile& operator=(const CifarFile&) = delete;
  ~CifarFile() { ::close(descriptor_); }

  const fs::path& path() const { return path_; }
  std::int64_t images() const { return images_; }

  // The label's byte and the pixels. Throws Error for a label beyond 9.
  void read(std::int64_t index, std::array<std::uint8_t, cifar_record>& record) const {
    for (std::int64_t done = 0; done < cifar_record;) {
      const ssize_t count = ::pread(descriptor_, record.data() + done, static_cast<std::size_t>(cifar_record - done),
                                    index * cifar_record + done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0)
        throw Error(expected_got(path_.string() + " image " + std::to_string(index + 1), "3,073 bytes",
                                 count == 0 ? std::to_string(done) : std::strerror(errno)));
      done += count;
    }
    if (record[0] >= cifar_classes.size())
      throw Error(expected_got(path_.string() + " image " + std::to_string(index + 1), "a label of 0 to 9",
                               std::to_string(record[0])));
  }

 private:
  fs::path path_;
  int descriptor_;
  std::int64_t images_ = 0;
};

class CifarStore final : public ImageStore {
 public:
  // The hash of the file's content, all labels checked. Its images follow those of earlier files.
  std::string add(const fs::path& path) {
    files_.push_back(std::make_unique<CifarFile>(path));
    ends_.push_back(images() + files_.back()->images());
    Sha256 hash;
    std::array<std::uint8_t, cifar_record> record;
    for (std::int64_t index = 0; index < files_.back()->images(); ++index) {
      files_.back()->read(index, record);
      hash.add({reinterpret_cast<const char*>(record.data()), record.size()});
    }
    return hash.digits();
  }
  std::int64_t images() const { return ends_.empty() ? 0 : ends_.back(); }

  ImageExample image(std::int64_t index) const override {
    const auto record = record_of(index);
    ImageExample example;
    example.label = record[0];
    example.pixels.assign(record.begin() + 1, record.end());
    return example;
  }

 private:
  std::array<std::uint8_t, cifar_record> record_of(std::int64_t index) const {
    const auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    std::array<std::uint8_t, cifar_record> record;
    files_[file]->read(index - (file == 0 ? 0 : ends_[file - 1]), record);
    return record;
  }

  std::vector<std::unique_ptr<CifarFile>> files_;
  std::vector<std::int64_t> ends_;  // of the files' images
};

// The files of a folder, sorted.
std::vector<fs::path> cifar_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code problem;
  for (fs::directory_iterator entries(folder, problem); !problem && entries != fs::directory_iterator();
       entries.increment(problem)) {
    const std::string name = entries->path().filename().string();
    if (name == "test_batch.bin" || (name.starts_with("data_batch_") && name.ends_with(".bin")))
      files.push_back(entries->path());
  }
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be read", problem.message()));
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw Error(expected_got(folder.string(), "CIFAR-10 (data_batch_1.bin …, test_batch.bin)", "none of these files"));
  return files;
}

}  // namespace

std::shared_ptr<const ImageSource> cifar10_images(const std::vector<fs::path>& paths) {
  if (paths.empty()) throw UsageError(expected_got("CIFAR-10", "files or a folder", "none"));
  std::vector<fs::path> files;
  ImageSetFacts facts;
  for (const fs::path& path : paths) {
    std::error_code problem;
    if (!fs::exists(path, problem))
      throw Error(expected_got("CIFAR-10", "a file or folder", path.empty() ? "" : "none at " + path.string()));
    const std::vector<fs::path> found = fs::is_directory(path) ? cifar_files(path) : std::vector{path};
    files.insert(files.end(), found.begin(), found.end());
    const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
    facts.name += (facts.name.empty() ? "" : ", ") + last.string();
  }
  const auto store = std::make_shared<CifarStore>();
  ImageSplit split;
  Sha256 hash;
  for (const fs::path& file : files) {
    std::vector<std::int64_t>& part = file.filename() == "test_batch.bin" ? split.held_out : split.training;
    std::int64_t index = store->images();
    hash.add(store->add(file));
    while (index < store->images()) part.push_back(index++);
  }
  facts.sha256 = hash.digits();
  facts.bytes = store->images() * cifar_record;
  facts.height = facts.width = cifar_side;
  facts.class_names.assign(cifar_classes.begin(), cifar_classes.end());
  return stored_images(std::move(facts), store, std::move(split));
}

}  // namespace cogwheel::tasks::images
