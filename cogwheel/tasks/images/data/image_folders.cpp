// Folders of pictures, a folder a class.
#include <algorithm>
#include <cctype>
#include <map>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/tasks/images/data/image_files.h"
#include "cogwheel/tasks/images/data/image_resize.h"
#include "cogwheel/tasks/images/data/image_source.h"
#include "cogwheel/tasks/images/data/stored_images.h"
#include "cogwheel/text/corpus_builder.h"

namespace cogwheel::tasks::images {
namespace {
namespace fs = std::filesystem;

void expect_utf8_name(const fs::path& path, std::string_view expected) {
  const std::string name = path.filename().string();
  if (const std::size_t offset = find_non_text(name); offset != std::string::npos)
    throw Error(expected_got(path.parent_path().string() + ": a folder", expected, code_point_text(name, offset)));
}

bool is_visible(const fs::path& path) { return !path.filename().string().starts_with('.'); }

// Whether a file's name is that of a picture, in any format: those that decode_image lacks are errors, not left out.
bool named_as_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const char* each : {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm",
                           ".pgm", ".heic", ".avif"})
    if (extension == each) return true;
  return false;
}

std::string size_text(const ImageSize& size) {
  return std::to_string(size.width) + " × " + std::to_string(size.height);
}

struct StoredPicture {
  std::string name;  // below the folder
  std::int64_t label;
};

class ImageFolderStore final : public ImageStore {
 public:
  ImageFolderStore(fs::path folder, std::int64_t size) : folder_(std::move(folder)), size_(size) {}

  std::int64_t images() const { return std::ssize(pictures_); }
  const ImageSize& image_size() const { return equal_size_; }

  // Reads its header. Returns its size in the file.
  ImageSize add(const fs::path& path, std::int64_t label) {
    const ImageSize found = read_image_size(path);
    if (pictures_.empty()) equal_size_ = size_ == 0 ? found : ImageSize{size_, size_};
    expect_equal_size(path, found);
    pictures_.push_back({path.lexically_relative(folder_).generic_string(), label});
    return found;
  }

  ImageExample image(std::int64_t index) const override {
    const StoredPicture& stored = pictures_[static_cast<std::size_t>(index)];
    const fs::path path = folder_ / stored.name;
    Image image = read_image(path);
    expect_equal_size(path, {image.height, image.width});
    if (size_ != 0) image = centre_square(image, size_);
    ImageExample example;
    example.label = stored.label;
    example.pixels.resize(image.pixels.size());
    const std::size_t plane = image.pixels.size() / 3;
    for (std::size_t pixel = 0; pixel < plane; ++pixel)
      for (std::size_t channel = 0; channel < 3; ++channel)
        example.pixels[channel * plane + pixel] = image.pixels[3 * pixel + channel];
    return example;
  }

 private:
  void expect_equal_size(const fs::path& path, const ImageSize& found) const {
    if (size_ == 0 && found != equal_size_)
      throw Error(
          expected_got(path.string(), "the size of the other pictures, " + size_text(equal_size_), size_text(found)));
  }

  fs::path folder_;
  std::int64_t size_;
  ImageSize equal_size_;
  std::vector<StoredPicture> pictures_;
};

// Whether a folder lies in another, or is that one.
bool is_within(const fs::path& folder, const fs::path& above) {
  std::error_code problem;
  const fs::path inner = fs::canonical(folder, problem), outer = fs::canonical(above, problem);
  return !problem && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// The visible folders in a folder, sorted, links to folders included. A picture beside them would have no class. Links
// that lead nowhere or back to where they lie are counted.
std::map<std::string, fs::path> class_folders(const fs::path& folder, std::int64_t& left_out) {
  std::map<std::string, fs::path> folders;
  std::error_code problem;
  for (fs::directory_iterator entries(folder, problem); !problem && entries != fs::directory_iterator();
       entries.increment(problem)) {
    if (!is_visible(entries->path())) continue;
    std::error_code unknown;
    const fs::file_status status = entries->status(unknown);
    if (!fs::exists(status) || (fs::is_directory(status) && is_within(folder, entries->path()))) {
      ++left_out;
    } else if (fs::is_directory(status)) {
      expect_utf8_name(entries->path(), "the name of a class in UTF-8");
      folders[entries->path().filename().string()] = entries->path();
    } else if (named_as_picture(entries->path())) {
      throw Error(expected_got(entries->path().string(), "pictures in folders of their classes", "one beside them"));
    }
  }
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be read", problem.message()));
  return folders;
}

class ImageFolderReader {
 public:
  ImageFolderReader(const fs::path& folder, const ImageFolderOptions& options)
      : folder_(folder), store_(std::make_shared<ImageFolderStore>(folder, options.size)) {
    facts_.name = (folder.has_filename() ? folder.filename() : folder.parent_path().filename()).string();
    hash_.add("size " + std::to_string(options.size) + "\n");
  }

  std::int64_t& left_out() { return facts_.left_out; }

  // Fixes the classes.
  void name_classes(const std::map<std::string, fs::path>& classes) {
    for (const auto& [name, folder] : classes) facts_.class_names.push_back(name);
  }

  // Adds the pictures of the classes in a folder. Throws Error for a class that has no name, and for one without
  // pictures.
  std::vector<std::int64_t> read(const fs::path& part, const std::map<std::string, fs::path>& classes) {
    std::vector<std::int64_t> numbers;
    for (const auto& [name, folder] : classes) {
      const auto found = std::lower_bound(facts_.class_names.begin(), facts_.class_names.end(), name);
      if (found == facts_.class_names.end() || *found != name)
        throw Error(expected_got(folder.string(), "a class that is trained on", "another one"));
      const std::int64_t before = std::ssize(numbers);
      const auto broken = [&](const fs::path& link) { facts_.left_out += is_visible(link) ? 1 : 0; };
      for (const fs::path& file : text::files_below(folder, is_visible, is_visible, broken)) {
        if (!named_as_picture(file)) {
          ++facts_.left_out;
          continue;
        }
        numbers.push_back(store_->images());
        const ImageSize size = store_->add(file, found - facts_.class_names.begin());
        const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
        facts_.bytes += bytes;
        files_.push_back(file);
        headers_.push_back(file.lexically_relative(folder_).generic_string() + "\n" + std::to_string(bytes) + " " +
                           size_text(size) + "\n");
      }
      if (std::ssize(numbers) == before)
        throw Error(expected_got(folder.string(), "PNG or JPEG files of this class", "none"));
    }
    if (numbers.empty())
      throw Error(expected_got(part.string(), "PNG or JPEG files in folders of their classes", "none"));
    return numbers;
  }

  std::shared_ptr<const ImageSource> finish(ImageSplit split) && {
    std::vector<std::string> contents(files_.size());
    for_each_picture(std::ssize(files_), [&](std::int64_t index) {
      const auto place = static_cast<std::size_t>(index);
      contents[place] = sha256_of_file(files_[place]);
    });
    for (std::size_t place = 0; place < files_.size(); ++place) hash_.add(headers_[place] + contents[place] + "\n");
    facts_.sha256 = hash_.digits();
    facts_.height = store_->image_size().height, facts_.width = store_->image_size().width;
    return stored_images(std::move(facts_), store_, std::move(split));
  }

 private:
  fs::path folder_;
  std::shared_ptr<ImageFolderStore> store_;
  ImageSetFacts facts_;
  std::vector<fs::path> files_;
  std::vector<std::string> headers_;  // of the files: name, length, size
  Sha256 hash_;
};

}  // namespace

std::shared_ptr<const ImageSource> class_folder_images(const fs::path& folder, const ImageFolderOptions& options) {
  if (options.size != 0) expect_within("image size", options.size, Range<std::int64_t>{1, 4096});
  if (std::error_code problem; !fs::is_directory(folder, problem))
    throw Error(expected_got("images", "a folder", folder.empty() ? "" : "none at " + folder.string()));
  ImageFolderReader reader(folder, options);
  const std::map<std::string, fs::path> top = class_folders(folder, reader.left_out());
  ImageSplit split;
  const auto train = top.find("train");
  // A folder `train` may also be a class, of pictures of trains.
  if (train != top.end() && (top.contains("test") || top.contains("val") || top.size() == 1)) {
    for (const auto& [name, path] : top)
      if (name != "train" && name != "test" && name != "val")
        throw Error(expected_got(path.string(), "only train, test and val in this folder", name));
    const auto classes = class_folders(train->second, reader.left_out());
    reader.name_classes(classes);
    split.training = reader.read(train->second, classes);
    const auto read_part = [&](const char* name) {
      const auto part = top.find(name);
      return part == top.end() ? std::vector<std::int64_t>()
                               : reader.read(part->second, class_folders(part->second, reader.left_out()));
    };
    split.held_out = read_part("test");
    (split.held_out.empty() ? split.held_out : split.tuning) = read_part("val");
  } else {
    reader.name_classes(top);
    split.training = reader.read(folder, top);
  }
  return std::move(reader).finish(std::move(split));
}

}  // namespace cogwheel::tasks::images
