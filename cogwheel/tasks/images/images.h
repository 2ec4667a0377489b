// The task of classifying images.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/images/image_data.h"

namespace cogwheel::tasks::images {

struct ImageTaskSettings {
  double label_smoothing = 0;
  ImageAugmentation augmentation = {};
};

// `options`: of the configuration, which records them.
std::shared_ptr<const runs::Task> make_image_task(std::shared_ptr<const ImageSource> source,
                                                  const ImageTaskSettings& settings = {},
                                                  runs::TaskOptions options = {.name = "images"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const runs::Task> random_image_task(const runs::RunConfig& config, const runs::RandomItems& items);

}  // namespace cogwheel::tasks::images
