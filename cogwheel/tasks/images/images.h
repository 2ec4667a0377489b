// The task of classifying images.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/images/image_data.h"

namespace cogwheel {

struct ImageTaskSettings {
  double label_smoothing = 0;
  ImageAugmentation augmentation = {};
};

// `options`: of the configuration, which records them.
std::shared_ptr<const Task> make_image_task(std::shared_ptr<const ImageSource> source,
                                            const ImageTaskSettings& settings = {},
                                            TaskOptions options = {.name = "images"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const Task> random_image_task(const RunConfig& config, const RandomItems& items);

}  // namespace cogwheel
