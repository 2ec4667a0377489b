#include "cogwheel/tasks/images/generated_images.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/tasks/images/caption_encoder.h"
#include "cogwheel/tasks/images/data/image_batches.h"
#include "cogwheel/tasks/images/data/image_files.h"
#include "cogwheel/tasks/images/diffusion/sampler.h"
#include "cogwheel/tasks/images/picture_grid.h"

namespace cogwheel::tasks::images {
namespace {

NoiseCondition part_of(const NoiseCondition& all, std::int64_t first, std::int64_t count) {
  const auto part = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, first, count) : tensor;
  };
  return {part(all.classes), part(all.vectors)};
}

NoiseCondition both(const NoiseCondition& first, const NoiseCondition& second) {
  const auto join = [](const at::Tensor& a, const at::Tensor& b) { return a.defined() ? at::cat({a, b}) : a; };
  return {join(first.classes, second.classes), join(first.vectors, second.vectors)};
}

std::int64_t class_named(const std::string& name, const std::vector<std::string>& classes) {
  const auto found = std::find(classes.begin(), classes.end(), name);
  if (found == classes.end()) throw UsageError(expected_got("sample: --class", expected_names(name, classes), name));
  return found - classes.begin();
}

std::int64_t images_of(const runs::SampleRequest& request) { return request.count.value_or(16); }

at::Tensor contexts_in(const std::filesystem::path& path, const UVitOptions& options) {
  const runs::SafeTensors file = runs::load_safetensors(path);
  const auto found = file.tensors.find("contexts");
  const std::vector<std::int64_t> one{options.condition_tokens, options.condition_width};
  const std::string expected = fmt::format("contexts [images, {}, {}]", one[0], one[1]);
  if (found == file.tensors.end()) throw Error(expected_got(path.string(), expected, "no tensor of that name"));
  const at::Tensor& contexts = found->second;
  if (contexts.dim() != 3 || contexts.size(0) == 0 || contexts.size(1) != one[0] || contexts.size(2) != one[1])
    throw Error(expected_got(path.string(), expected, shape_text(contexts.sizes())));
  if (!contexts.is_floating_point() || !contexts.isfinite().all().item<bool>())
    throw Error(expected_got(path.string() + ": contexts", "finite numbers of a floating type", "others"));
  return contexts.to(at::kFloat);
}

// What the request asks the images to show; by turns, where it says nothing.
NoiseCondition condition_of(const runs::SampleRequest& request, const UVitOptions& options,
                            const std::vector<std::string>& classes, runs::TaskOptionReader& reader) {
  const std::int64_t count = images_of(request);
  if (!request.image_class.empty() && options.vocabulary == 0)
    throw UsageError(expected_got("sample: --class", "none for a run without classes", request.image_class));
  if (!request.prompt.empty() && options.condition_width == 0)
    throw UsageError(expected_got("sample: --prompt", "none for a run without contexts", request.prompt));
  if (!request.context.empty() && options.condition_width == 0)
    throw UsageError(expected_got("sample: --context", "none for a run without contexts", request.context.string()));
  if (!request.context.empty() && !request.prompt.empty())
    throw UsageError(expected_got("sample", "either --prompt or --context", "both"));
  if (options.vocabulary > 0) {
    const at::Tensor in_turn = at::arange(count, at::kLong).remainder(options.vocabulary);
    return {.classes = request.image_class.empty() ? in_turn
                                                   : at::full_like(in_turn, class_named(request.image_class, classes))};
  }
  if (options.condition_width == 0) return {};
  if (!request.prompt.empty()) {
    const std::string encoder = reader.path("encoder");
    if (encoder.empty())
      throw UsageError(expected_got("sample: --prompt", "none for a run without task.encoder", request.prompt));
    const CaptionEncoder captions(encoder, options.condition_tokens);
    captions.expect(reader.later_text("encoder_sha256"), encoder);
    return {.vectors = captions.contexts(std::vector<std::string>(static_cast<std::size_t>(count), request.prompt))};
  }
  if (request.context.empty())
    throw UsageError(expected_got("sample: --context", "a .safetensors file with contexts, or --prompt", "none"));
  const at::Tensor contexts = contexts_in(request.context, options);
  return {.vectors = contexts.index_select(0, at::arange(count, at::kLong).remainder(contexts.size(0)))};
}

// Before anything is drawn. Pictures go into a folder of their own: among others they would be taken for one set.
void expect_place(const std::filesystem::path& out) {
  namespace fs = std::filesystem;
  runs::expect_no_run_file(out, "sample: --out");
  const std::string extension = out.extension().string();
  if (extension == ".png" || extension == ".safetensors") return expect_writable(out);
  if (!extension.empty())
    throw UsageError(expected_got("sample: --out", "a .png file, a .safetensors file or a folder", out.string()));
  std::error_code problem;
  expect_makable(out);
  if (!fs::exists(out, problem)) return;
  if (!fs::is_directory(out, problem) || fs::directory_iterator(out, problem) != fs::directory_iterator())
    throw UsageError(expected_got("sample: --out", "a new or empty folder", out.string()));
}

void write_images(const at::Tensor& images, const std::filesystem::path& out) {
  if (out.extension() == ".safetensors")
    return runs::save_safetensors({.tensors = {{"images", images}}, .metadata = {}}, out);
  std::vector<Image> pictures;
  for (const at::Tensor& image : images.unbind(0)) pictures.push_back(image_of_tensor(image));
  const auto columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(pictures.size()))));
  if (out.extension() == ".png") return write_file(out, encode_png(tiled(pictures, columns)));
  make_folder(out);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    write_file(out / fmt::format("{:05}.png", i), encode_png(pictures[i]));
  write_file(out / "grid.png", encode_png(tiled(pictures, columns)));
}

}  // namespace

NoiseCondition no_condition(const UVitOptions& options, std::int64_t count) {
  NoiseCondition none;
  if (options.vocabulary > 0) none.classes = at::full({count}, options.vocabulary, at::kLong);
  if (options.condition_width > 0) none.vectors = at::zeros({count, options.condition_tokens, options.condition_width});
  return none;
}

at::Tensor draw_images(UVit& model, const NoiseSchedule& schedule, const ImageDrawing& drawing,
                       const std::function<bool(std::int64_t done)>& progress) {
  constexpr std::int64_t together = 64;
  const torch::NoGradGuard no_grad;
  const UVitOptions& options = model->options();
  const at::Device device = model->parameters().front().device();
  std::vector<at::Tensor> parts;
  for (std::int64_t first = 0; first < drawing.count; first += together) {
    const std::int64_t count = std::min(together, drawing.count - first);
    const NoiseCondition condition = part_of(drawing.condition, first, count);
    const NoisePrediction predict = [&](const at::Tensor& x, double t) {
      const auto at_time = [&](const at::Tensor& some, const NoiseCondition& what) {
        const at::Tensor told =
            model->forward(some, at::full({some.size(0)}, schedule.network_time(t), some.options()), what);
        return noise_of(drawing.prediction, told, some, at::full({}, schedule.alpha(t), some.options()),
                        at::full({}, schedule.sigma(t), some.options()));
      };
      if (drawing.guidance == 0) return at_time(x, condition);
      const auto with_and_without = at_time(at::cat({x, x}), both(condition, no_condition(options, count))).chunk(2);
      return with_and_without[0] + drawing.guidance * (with_and_without[0] - with_and_without[1]);
    };
    const NoisePrediction clipped = [&](const at::Tensor& x, double t) {
      const double alpha = schedule.alpha(t), sigma = schedule.sigma(t);
      return (x - alpha * ((x - sigma * predict(x, t)) / alpha).clamp(-1, 1)) / sigma;
    };
    const Noise noise(drawing.seed, drawing.first + first);
    const at::Tensor like = at::empty({count, options.channels, options.image_size, options.image_size}, device);
    const at::Tensor start =
        drawing.start.defined() ? drawing.start.narrow(0, first, count).to(device) : noise.normal(like, 0);
    parts.push_back(sample_diffusion(schedule, drawing.clip ? clipped : predict, start, noise, drawing.sampler).cpu());
    if (progress && !progress(first + count)) break;
  }
  return at::cat(parts);
}

at::Tensor between_noise(const at::Tensor& from, const at::Tensor& to, std::int64_t count) {
  const double cosine = ((from * to).sum() / (from.norm() * to.norm())).item<double>();
  const double angle = std::acos(std::clamp(cosine, -1.0, 1.0));
  std::vector<at::Tensor> all;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    all.push_back((std::sin((1 - share) * angle) * from + std::sin(share * angle) * to) / std::sin(angle));
  }
  return at::stack(all);
}

NoiseSchedule noise_schedule(runs::TaskOptionReader& reader) {
  return NoiseSchedule::named(reader.word("schedule", NoiseSchedule::names().front(), NoiseSchedule::names()),
                              "task.schedule");
}

Prediction prediction_of(runs::TaskOptionReader& reader) {
  return find_prediction(reader.word("prediction", prediction_names().front(), prediction_names()), "task.prediction");
}

bool holds_latents(runs::TaskOptionReader& reader) { return reader.later_yes("latents"); }

void sample_images(const runs::RunFolder& folder, const runs::SampleRequest& request, const runs::SampleWriter& write) {
  const runs::RunConfig config = runs::load_config(folder.config_path());
  UVit model(config.model.as<UVitOptions>());
  runs::load_weights_of(*model, config, folder);
  const UVitOptions& options = model->options();
  runs::TaskOptionReader reader(config.task);
  const NoiseSchedule schedule = noise_schedule(reader);
  if (request.guidance != 0 && reader.number("drop", 0, Range<double>{.min = 0, .max = 1}) == 0)
    throw UsageError(expected_got("sample: --guidance",
                                  "0 for a run that never trained without its condition (task.drop)",
                                  number_text(request.guidance)));
  if (request.guidance != 0 && options.vocabulary == 0 && options.condition_width == 0)
    throw UsageError(
        expected_got("sample: --guidance", "0 for a run without a condition", number_text(request.guidance)));
  if (request.diffusion.eta != 0 && request.diffusion.kind != runs::SamplerKind::ddim)
    throw UsageError(expected_got("sample: --eta", "0 but for --sampler ddim", number_text(request.diffusion.eta)));
  if (request.interpolate && images_of(request) < 2)
    throw UsageError(
        expected_got("sample: --count", "2 or more with --interpolate", std::to_string(images_of(request))));
  const bool pictures = options.channels == 3 && !holds_latents(reader);
  const std::filesystem::path out = request.out.empty() ? folder.path() / runs::samples_file : request.out;
  if (!pictures && out.extension() != ".safetensors")
    throw UsageError(expected_got("sample: --out",
                                  options.channels == 3
                                      ? "a .safetensors file for latents, which are no pictures"
                                      : fmt::format("a .safetensors file for images of {} channels", options.channels),
                                  out.string()));
  expect_place(out);
  ImageDrawing drawing{
      .count = images_of(request),
      .prediction = prediction_of(reader),
      .condition = condition_of(request, options,
                                options.vocabulary > 0 ? runs::load_class_names(folder.path(), options.vocabulary)
                                                       : std::vector<std::string>{},
                                reader),
      .guidance = request.guidance,
      .seed = request.sampling.seed,
      .sampler = request.diffusion,
      .clip = pictures && !request.unclipped};
  if (request.interpolate) {
    const at::Tensor ends =
        Noise(drawing.seed).normal(at::empty({2, options.channels, options.image_size, options.image_size}), 0);
    drawing.start = between_noise(ends[0], ends[1], drawing.count);
  }
  bool stopped = false;
  const at::Tensor images = draw_images(model, schedule, drawing, [&](std::int64_t done) {
    const bool goes_on = write(done < drawing.count ? fmt::format("{} of {} images\n", done, drawing.count) : "");
    stopped = !goes_on && done < drawing.count;
    return goes_on;
  });
  if (stopped) return;  // what lies there is whole
  write_images(images, out);
  write(out.string());
}

}  // namespace cogwheel::tasks::images
