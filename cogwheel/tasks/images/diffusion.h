// The task of predicting the noise in images.
#pragma once
#include <memory>
#include <string>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/images/caption_encoder.h"
#include "cogwheel/tasks/images/diffusion/noise_schedule.h"
#include "cogwheel/tasks/images/diffusion/prediction.h"
#include "cogwheel/tasks/images/image_data.h"

namespace cogwheel::tasks::images {

struct DiffusionSettings {
  NoiseSchedule schedule = NoiseSchedule::continuous();
  Prediction prediction = Prediction::noise;
  std::string condition = "none";  // or "class", "context"
  std::shared_ptr<CaptionEncoder> encoder =
      {};               // whose vectors of captions are the contexts; null: those of the images
  double drop = 0.1;    // in training, the share of images whose condition is hidden
  double guidance = 0;  // of images that pages show
  ImageAugmentation augmentation = {};
};

// `options`: of the configuration, which records them.
std::shared_ptr<const runs::Task> make_diffusion(std::shared_ptr<const ImageSource> source,
                                                 const DiffusionSettings& settings = {},
                                                 runs::TaskOptions options = {.name = "diffusion"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const runs::Task> random_diffusion(const runs::RunConfig& config, const runs::RandomItems& items);

}  // namespace cogwheel::tasks::images
