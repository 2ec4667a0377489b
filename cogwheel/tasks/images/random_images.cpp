#include "cogwheel/tasks/images/images.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <utility>

#include "cogwheel/core/range.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/images/data/given_images.h"
#include "cogwheel/tasks/images/diffusion.h"
#include "cogwheel/tasks/images/u_vit_options.h"
#include "cogwheel/tasks/images/vision_transformer_options.h"

namespace cogwheel::tasks::images {
namespace {

// Of the size that the options say. As many of each class, or without classes none has a label; as latents, they may
// have any number of channels.
template <class Options>
std::shared_ptr<const ImageSource> random_images(const Options& options) {
  expect_within("model.image_size", options.image_size, Range<std::int64_t>{1, 1 << 10});
  expect_within("model.channels", options.channels, Range<std::int64_t>{1, 1 << 6});
  const std::int64_t count = std::max<std::int64_t>(1024, 2 * options.vocabulary);
  GivenImages given;
  given.name = "random images";
  given.images = at::randn({count, options.channels, options.image_size, options.image_size},
                           at::make_generator<at::CPUGeneratorImpl>(/*seed=*/0), at::TensorOptions());
  if (options.vocabulary > 0) given.labels = at::arange(count, at::kLong).remainder(options.vocabulary);
  return given_images(std::move(given));
}

}  // namespace

std::shared_ptr<const runs::Task> random_image_task(const runs::RunConfig& config, const runs::RandomItems&) {
  runs::given_vocabulary(config, {1, 1 << 16});
  return make_image_task(random_images(config.model.as<VisionTransformerOptions>()));
}

std::shared_ptr<const runs::Task> random_diffusion(const runs::RunConfig& config, const runs::RandomItems&) {
  runs::given_vocabulary(config, {0, 0});
  return make_diffusion(random_images(config.model.as<UVitOptions>()));
}

}  // namespace cogwheel::tasks::images
