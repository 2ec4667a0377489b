#include "cogwheel/tasks/images/image_data.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/runs/class_matching.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/tasks/images/data/given_images.h"
#include "cogwheel/tasks/images/data/renamed_classes.h"

namespace cogwheel::tasks::images {
namespace {

std::shared_ptr<const ImageSource> images_of_tensors(const std::filesystem::path& path) {
  const runs::SafeTensors file = runs::load_safetensors(path);
  const auto tensor = [&](const char* name) {
    const auto found = file.tensors.find(name);
    return found == file.tensors.end() ? at::Tensor() : found->second;
  };
  if (!tensor("images").defined())
    throw Error(expected_got(path.string(), "a tensor named images", "none of that name"));
  return given_images({.name = path.filename().string(),
                       .sha256 = runs::sha256(file),
                       .bytes = static_cast<std::int64_t>(std::filesystem::file_size(path)),
                       .images = tensor("images"),
                       .labels = tensor("labels"),
                       .contexts = tensor("contexts")});
}

bool is_cifar10(const std::filesystem::path& path) {
  std::error_code problem;  // whoever reads it reports it
  if (!std::filesystem::is_directory(path, problem)) return path.extension() == ".bin";
  std::filesystem::directory_iterator entries(path, problem);
  return std::any_of(begin(entries), end(entries),
                     [](const auto& entry) { return entry.path().extension() == ".bin"; });
}

std::shared_ptr<const ImageSource> source_at(const std::filesystem::path& path, std::int64_t size) {
  std::error_code problem;
  if (!std::filesystem::exists(path, problem))
    throw Error(expected_got("task.images", "a file or a folder", path.string()));
  const bool folder = std::filesystem::is_directory(path, problem), cifar10 = is_cifar10(path);
  if (folder && !cifar10) return class_folder_images(path, {.size = size});
  if (size != 0) throw UsageError(expected_got("task.size", "0 for images whose size is given", std::to_string(size)));
  if (cifar10) return cifar10_images({path});
  if (path.extension() == ".safetensors") return images_of_tensors(path);
  throw Error(expected_got("task.images", "a .bin file of CIFAR-10, a .safetensors file, or a folder", path.string()));
}

}  // namespace

std::shared_ptr<const ImageSource> image_source(runs::TaskOptionReader& reader, const runs::RunConfig& config,
                                                const std::filesystem::path& folder) {
  const std::string path = reader.path("images");
  const std::int64_t size = reader.whole("size", 0, {0, 1 << 12});
  ToyShapeOptions shapes;
  if (size != 0) shapes.size = size;
  auto source = path.empty() ? toy_shape_images(shapes) : source_at(path, size);
  runs::expect_recorded_data(config, source->name(), source->sha256());
  std::vector<std::string> classes = runs::known_class_names(folder);
  if (classes.empty() || source->class_names().empty() || source->class_names() == classes) return source;
  runs::ClassMatch match = runs::match_classes(classes, source->class_names(), source->name() + ": classes");
  return renamed_classes(std::move(source), std::move(classes), std::move(match));
}

ImageAugmentation image_augmentation(runs::TaskOptionReader& reader, bool flips) {
  ImageAugmentation augmentation;
  augmentation.flip = reader.yes("flip", flips);
  augmentation.crop_padding = reader.whole("crop_padding", 0, {0, 1 << 12});
  augmentation.erase = reader.number("erase", 0, Range<double>{.min = 0, .max = 1});
  return augmentation;
}

void fit_images(std::int64_t& image_size, std::int64_t& channels, const ImageSource& source) {
  if (source.height() != source.width())
    throw UsageError(expected_got("images of " + source.name(), "squares; task.size cuts them",
                                  std::to_string(source.height()) + " × " + std::to_string(source.width())));
  const auto fit = [&](const char* name, std::int64_t& given, std::int64_t found) {
    if (given != 0 && given != found)
      throw UsageError(expected_got(std::string("model.") + name,
                                    std::to_string(found) + ", as the images of " + source.name(),
                                    std::to_string(given)));
    given = found;
  };
  fit("image_size", image_size, source.height());
  fit("channels", channels, source.channels());
}

bool is_picture(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

runs::DataFacts image_facts(const ImageSource& source, const std::string& item, std::int64_t vocabulary,
                            std::int64_t evaluated, const runs::TrainingOptions& training) {
  return {.name = source.name(),
          .tokenizer = item,
          .sha256 = source.sha256(),
          .bytes = source.bytes(),
          .vocabulary = vocabulary,
          .train_tokens = source.images(ImagePart::training),
          .held_out_tokens = source.images(ImagePart::held_out),
          .evaluated_tokens = evaluated,
          .curve_tokens = training.curve_tokens == 0 ? evaluated : std::min(evaluated, training.curve_tokens),
          .window = 1};
}

ImageBatch TrainingImages::at_step(const runs::TrainingOptions& training, std::int64_t step) {
  const std::lock_guard lock(mutex_);
  const std::pair wanted(training.seed, training.batch);
  if (!batches_ || made_for_ != wanted) {
    batches_ = std::make_unique<ImageBatches>(
        source_, training.seed, ImageBatchOptions{.batch = training.batch, .augmentation = augmentation_});
    made_for_ = wanted;
  }
  return batches_->at_step(step);
}

ImageBatch held_out_images(const ImageSource& source, std::int64_t first, std::int64_t count) {
  const std::int64_t all = source.images(ImagePart::held_out);
  const KeyedOrder order(static_cast<std::uint64_t>(all), 0, 0);
  std::vector<std::int64_t> places;
  for (std::int64_t place = first; place < std::min(all, first + count); ++place)
    places.push_back(static_cast<std::int64_t>(order.at(static_cast<std::uint64_t>(place))));
  return images_at(source, ImagePart::held_out, places);
}

}  // namespace cogwheel::tasks::images
