// The images that a task learns from, as the options of the task name them, and models that fit them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/runs/task.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/images/data/image_batches.h"

namespace cogwheel::tasks::images {

// task.images: a file or a folder of CIFAR-10, a folder with a folder for each class, or a .safetensors file with
// `images` and, as it has them, `labels` and `contexts`; empty: coloured shapes, drawn without end. task.size: of
// shapes, and what pictures are cut and scaled to; 0: as they are. Throws Error where they cannot be read, or are not
// those of config.data.sha256. Where `folder`, that of a run, has names of classes, labels are those of the run's
// model: Throws Error where they cannot be matched (runs/class_matching.h).
std::shared_ptr<const ImageSource> image_source(runs::TaskOptionReader& reader, const runs::RunConfig& config,
                                                const std::filesystem::path& folder);

// task.flip, task.crop_padding and task.erase; `flips` where the first is not given.
ImageAugmentation image_augmentation(runs::TaskOptionReader& reader, bool flips);

// Sets image_size and channels of a model's options. Throws UsageError where they say others, or images are no squares.
void fit_images(std::int64_t& image_size, std::int64_t& channels, const ImageSource& source);

// Whether a file is a PNG or JPEG by its name.
bool is_picture(const std::filesystem::path& path);

// What every task on images says of its data; `vocabulary` is that of its models.
runs::DataFacts image_facts(const ImageSource& source, const std::string& item, std::int64_t vocabulary,
                            std::int64_t evaluated, const runs::TrainingOptions& training);

// The batches of training, made ahead while steps follow each other, of a run or of one after the other.
class TrainingImages {
 public:
  TrainingImages(std::shared_ptr<const ImageSource> source, const ImageAugmentation& augmentation)
      : source_(std::move(source)), augmentation_(augmentation) {}

  ImageBatch at_step(const runs::TrainingOptions& training, std::int64_t step);

 private:
  std::shared_ptr<const ImageSource> source_;
  ImageAugmentation augmentation_;
  std::mutex mutex_;
  std::unique_ptr<ImageBatches> batches_;
  std::pair<std::uint64_t, std::int64_t> made_for_ = {};  // seed, images
};

// Held-out images in an order that mixes classes, always the same: `count` from the place `first` on.
ImageBatch held_out_images(const ImageSource& source, std::int64_t first, std::int64_t count);

}  // namespace cogwheel::tasks::images
