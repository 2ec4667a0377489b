// Images to train on and images held out: from files, from tensors, or drawn.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace cogwheel::tasks::images {

// One image with what is known of it.
struct ImageExample {
  std::vector<std::uint8_t> pixels;  // [channels, height, width]; empty for latents
  std::vector<float> latent;         // the same, as it is given; empty for pixels
  std::int64_t label = -1;           // a number of class_names(); -1: none
  std::string caption;               // empty: none
  std::vector<float> context;        // [context_tokens, context_width], such as an encoded caption; empty: none
};

enum class ImagePart { training, held_out };

// What all images of a source have in common.
struct ImageSetFacts {
  std::string name, sha256;  // as a run records the data
  std::int64_t bytes = 0;    // of files; 0: none
  std::int64_t channels = 3, height = 0, width = 0;
  bool latents = false;  // numbers of another model instead of pixels
  bool captions = false;
  std::vector<std::string> class_names;                // empty: no labels
  std::int64_t context_tokens = 0, context_width = 0;  // 0: no contexts
  std::int64_t left_out = 0;            // files that by their names are no pictures, and links that lead nowhere
  std::vector<std::string> notes = {};  // a line each, how they are taken where that may not be what was meant
};

// Images may be asked for by several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  const ImageSetFacts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }
  const std::string& sha256() const { return facts_.sha256; }
  std::int64_t bytes() const { return facts_.bytes; }
  std::int64_t channels() const { return facts_.channels; }
  std::int64_t height() const { return facts_.height; }
  std::int64_t width() const { return facts_.width; }
  const std::vector<std::string>& class_names() const { return facts_.class_names; }

  // 0 to train on: without end.
  virtual std::int64_t images(ImagePart part) const = 0;
  // By its number in its part, from 0. Throws Error with the file where that can no longer be read.
  virtual ImageExample image(ImagePart part, std::int64_t index) const = 0;

  // The image that training with a seed meets at this place, counted from 0: each once before any comes again, in
  // another order each time.
  virtual ImageExample training_image(std::uint64_t seed, std::uint64_t place) const;

  // The same data for choosing settings: what was to be trained on, in part held out instead of what is held out here.
  virtual std::shared_ptr<const ImageSource> for_tuning() const = 0;

 protected:
  ImageSetFacts facts_;
};

// CIFAR-10, binary version (Krizhevsky 2009): records of a label and 3 × 32 × 32 bytes, channel first, of which a file
// is any number. Each path is such a file, or a folder with data_batch_*.bin and test_batch.bin. What is called
// test_batch.bin is held out; without it a tenth of each class, chosen by content, so that an image that occurs twice
// is on one side. Files are read once for the hash, then image by image. Throws Error with the file for a length that
// is no multiple of 3,073 bytes, and for a label beyond 9.
std::shared_ptr<const ImageSource> cifar10_images(const std::vector<std::filesystem::path>& paths);

struct ImageFolderOptions {
  // Images are made size × size: the square in the middle, by the area filter (image_resize.h). 0: as they are, and all
  // equal.
  std::int64_t size = 0;
};

// PNG and JPEG files in folders of their classes, in any depth: train/CLASS/… and test/CLASS/… or val/CLASS/…, or
// CLASS/… alone, of which a tenth is held out, chosen by what they show. With train, val and test, val is held out
// for tuning. Classes are numbered in the order of their names.
//
// Each file is read once for the hash, which is that of names and contents, and where a tenth is held out it is decoded
// once, by several threads: about what the first epoch takes again, in which a picture is decoded when it is asked for.
// Hidden files are skipped; files whose names end in none of a picture's ways, and links that lead nowhere, are counted
// as left out. Throws Error with the file or folder for what cannot be read, a picture in no class, a picture in a
// format other than PNG and JPEG, unequal sizes, a class to test that is none to train.
std::shared_ptr<const ImageSource> class_folder_images(const std::filesystem::path& folder,
                                                       const ImageFolderOptions& options = {});

struct ToyShapeOptions {
  std::int64_t size = 32;       // 16 to 512
  std::int64_t held_out = 900;  // 1 or more
};

// Coloured shapes with captions, without end (toy_shapes.h). What is held out is the same for every seed, and every
// class has nearly the same share of it.
std::shared_ptr<const ImageSource> toy_shape_images(const ToyShapeOptions& options = {});

}  // namespace cogwheel::tasks::images
