// Images drawn by a model of the noise in them, for pages and for `cogwheel sample`.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "cogwheel/runs/sampler.h"
#include "cogwheel/runs/sampler_options.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/images/diffusion/noise_schedule.h"
#include "cogwheel/tasks/images/diffusion/prediction.h"
#include "cogwheel/tasks/images/u_vit.h"

namespace cogwheel::tasks::images {

struct ImageDrawing {
  std::int64_t count = 0;
  Prediction prediction = Prediction::noise;
  NoiseCondition condition = {};  // of each image, as the model has it
  double guidance = 0;            // s in ε_c + s (ε_c − ε_u): Ho and Salimans, "Classifier-Free Guidance" (2022)
  std::uint64_t seed = 0;         // image i of a seed has the same noise, whatever the count
  std::int64_t first = 0;         // the number of the first image
  runs::SamplerOptions sampler = {};
  // At each step, the data that the noise implies are cut to [−1, 1], where pixels lie, and the noise follows from
  // these: Ho, Jain, Abbeel (2020), as their code has it. Near t = 1 a small error of the noise is a large one of the
  // data.
  bool clip = false;
  at::Tensor start = {};  // [count, C, H, W], noise to start from; undefined: that of the seed
};

// No condition, for so many images: the class after the last, and vectors of zeros.
NoiseCondition no_condition(const UVitOptions& options, std::int64_t count);

// Images [count, C, H, W], on the CPU. `progress` hears of each part with the images that are done, and ends the
// drawing by returning false.
at::Tensor draw_images(UVit& model, const NoiseSchedule& schedule, const ImageDrawing& drawing,
                       const std::function<bool(std::int64_t done)>& progress = {});

// Noise from one point to another over a sphere, so that all of it has the length of noise: `count` of them, both ends
// included. [C, H, W] each → [count, C, H, W]. Shoemake (1985).
at::Tensor between_noise(const at::Tensor& from, const at::Tensor& to, std::int64_t count);

// What task.schedule and task.prediction name.
NoiseSchedule noise_schedule(runs::TaskOptionReader& reader);
Prediction prediction_of(runs::TaskOptionReader& reader);

// `cogwheel sample` of a run that learned the noise in images.
// Whether a run learned from latents, which are neither clipped nor pictures.
bool holds_latents(runs::TaskOptionReader& reader);

void sample_images(const runs::RunFolder& folder, const runs::SampleRequest& request, const runs::SampleWriter& write);

}  // namespace cogwheel::tasks::images
