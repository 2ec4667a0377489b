// Predicting the noise in images, from which new ones are drawn: Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic
// Models" (2020), by a U-ViT (Bao et al. 2023), or with Cog attention in it a U-ViC (Lv et al. 2024).
#include "cogwheel/tasks/images/diffusion.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/nn/attention_maps.h"
#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/images/data/toy_shapes.h"
#include "cogwheel/tasks/images/diffusion/noise.h"
#include "cogwheel/tasks/images/generated_images.h"
#include "cogwheel/tasks/images/image_samples.h"
#include "cogwheel/tasks/images/image_task.h"
#include "cogwheel/tasks/images/picture_grid.h"

namespace cogwheel::tasks::images::diffusion {
namespace {

runs::TaskDescription describe() {
  return {
      .name = "diffusion",
      .summary = "predict the noise in images, and draw new ones: of CIFAR-10, folders, latents, or coloured shapes",
      .item = "image",
      .data = "Pictures of one coloured shape each, drawn without end.",
      .does_better = "predicts the noise in unseen images better",
      .do_better = "predict the noise in unseen images better",
      .counted = "images",
      .sampling = ", 20 steps of DPM-Solver++",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "squared error per pixel"}}};
}

// Independent numbers of one seed.
enum Stream : std::uint32_t { times = 0x7a1e, drops = 0x7a1f };
constexpr std::uint64_t noises = 0x7a20;

class Diffusion : public ImageTask {
 public:
  Diffusion(std::shared_ptr<const ImageSource> source, const DiffusionSettings& settings, runs::TaskOptions options)
      : ImageTask(std::move(source), settings.augmentation, std::move(options)), settings_(settings) {
    if (by_class() && source_->class_names().empty())
      throw UsageError(expected_got("task.condition", "none for images without classes", settings.condition));
    if (by_context() && source_->facts().context_width == 0 && !settings_.encoder)
      throw UsageError(expected_got(
          "task.condition",
          source_->facts().captions ? "none, or task.encoder for captions" : "none for images without contexts",
          settings_.condition));
    if (settings_.encoder && (!by_context() || !source_->facts().captions))
      throw UsageError(
          expected_got("task.encoder", "none but for task.condition context on images with captions", "one"));
  }

  const runs::TaskDescription& description() const override {
    static const runs::TaskDescription description = describe();
    return description;
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    runs::set_vocabulary(config, vocabulary(),
                         by_class() ? ", the classes of " + source_->name() : " without task.condition class");
    auto& model = config.model.as<UVitOptions>();
    if (by_context()) {
      const CaptionEncoder* const encoder = settings_.encoder.get();
      model.condition_width = encoder != nullptr ? encoder->width() : source_->facts().context_width;
      model.condition_tokens = encoder != nullptr ? encoder->tokens() : source_->facts().context_tokens;
    }
    complete_images<UVitOptions>(config);
    return config;
  }

  std::vector<runs::RunFile> assets() const override {
    if (!by_class()) return {};
    return {runs::class_names_file(source_->class_names())};
  }

  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    nn::holder_of<UVit>(model)->initialize(seed);
  }

  runs::Batch batch(const torch::nn::Module& model, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const ImageBatch images = with_contexts(training_.at_step(training, place.batches));
    const std::int64_t count = images.images.size(0), first = place.rows;
    std::vector<double> when;
    for (std::int64_t image = 0; image < count; ++image)
      when.push_back(time_at(NumberedDraws(training.seed, times, static_cast<std::uint64_t>(first + image)).uniform()));
    runs::Batch batch = noisy(images, when, Noise(nn::derived_seed(training.seed, noises), first));
    drop_conditions(batch, dynamic_cast<const UVitImpl&>(model).options(), training.seed, first);
    return batch;
  }

  at::Tensor loss(torch::nn::Module& module, const runs::Batch& batch, std::uint64_t dropout_seed) const override {
    auto model = nn::holder_of<UVit>(module);
    const Predicted predicted = predict(model, batch, {.dropout = model->dropout(dropout_seed)});
    return prediction_error(settings_.prediction, predicted.noise,
                            nn::to_device(batch.targets, predicted.noise.device()), predicted.alpha);
  }

  // Times and noise are those of the image's place, so that models are measured on the same noisy images.
  runs::MeasuredValues evaluate(torch::nn::Module& module, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override {
    const torch::NoGradGuard no_grad;
    const std::int64_t count = images_of(part, training);
    auto model = nn::holder_of<UVit>(module);
    double sum = 0;
    for (std::int64_t first = 0; first < count; first += together) {
      const std::int64_t images = std::min(together, count - first);
      nn::Hooks hooks;
      std::optional<nn::HeadObserver> observer;
      if (heads != nullptr && first == 0) observer.emplace(hooks);
      sum +=
          static_cast<double>(images) *
          squared_errors(model, held_out(first, images), {.hooks = observer ? &hooks : nullptr}).mean().item<double>();
      if (observer) *heads = observer->statistics();
    }
    return {{"held_out_loss", sum / static_cast<double>(count)}};
  }

  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t seed,
                           const runs::ThoroughInspection* thorough) const override {
    if (thorough == nullptr) return show(module, seed, 24);
    runs::Inspection inspection = show(module, seed, 225);
    inspection.tables.push_back(loss_by_time(module));
    if (thorough->any()) {
      SampleMeasures measured = measured_samples(module, seed, *thorough);
      inspection.tables.push_back(std::move(measured.table));
      inspection.numbers = std::move(measured.values);
    }
    return inspection;
  }
  bool generates_images() const override { return true; }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    auto part = std::make_shared<Diffusion>(source_, settings_, options_);
    part->evaluated_ = std::min(evaluated, evaluated_);
    return part;
  }
  std::shared_ptr<const runs::Task> for_tuning() const override {
    return std::make_shared<Diffusion>(source_->for_tuning(), settings_, options_);
  }

 private:
  bool by_class() const { return settings_.condition == "class"; }
  bool by_context() const { return settings_.condition == "context"; }

  ImageBatch with_contexts(ImageBatch batch) const {
    if (settings_.encoder) settings_.encoder->fill(batch);
    return batch;
  }
  ImageBatch unseen(std::int64_t first, std::int64_t count) const {
    return with_contexts(held_out_images(*source_, first, count));
  }

  std::int64_t vocabulary() const override { return by_class() ? std::ssize(source_->class_names()) : 0; }

  // Of a number in [0, 1): a time of a continuous schedule, or a step of a discrete one.
  double time_at(double uniform) const {
    const NoiseSchedule& schedule = settings_.schedule;
    if (const auto steps = static_cast<double>(schedule.steps()); steps > 0)
      return (std::floor(uniform * steps) + 1) / steps;
    return schedule.first_time() + (1 - schedule.first_time()) * uniform;
  }

  // x_t = α x_0 + σ ε, of which ε is to be told.
  runs::Batch noisy(const ImageBatch& images, const std::vector<double>& when, const Noise& noise) const {
    const NoiseSchedule& schedule = settings_.schedule;
    std::vector<float> alphas, sigmas, network_times;
    for (const double t : when) {
      alphas.push_back(static_cast<float>(schedule.alpha(t)));
      sigmas.push_back(static_cast<float>(schedule.sigma(t)));
      network_times.push_back(static_cast<float>(schedule.network_time(t)));
    }
    const auto by_image = [](const std::vector<float>& values) { return at::tensor(values).view({-1, 1, 1, 1}); };
    const at::Tensor drawn = noise.normal(images.images, 0);
    return {.inputs = by_image(alphas) * images.images + by_image(sigmas) * drawn,
            .targets = drawn,
            .tokens = images.images.size(0),
            .source = by_class()     ? images.labels
                      : by_context() ? images.contexts
                                     : at::Tensor(),
            .times = at::tensor(network_times)};
  }

  // Times that fill [0, 1) evenly, however many there are: multiples of the golden ratio.
  std::vector<double> held_out_times(std::int64_t first, std::int64_t count) const {
    std::vector<double> when;
    for (std::int64_t place = first; place < first + count; ++place) {
      const double turned = 0.5 + 0.6180339887498949 * static_cast<double>(place);
      when.push_back(time_at(turned - std::floor(turned)));
    }
    return when;
  }
  runs::Batch held_out(std::int64_t first, std::int64_t count) const {
    return noisy(unseen(first, count), held_out_times(first, count), Noise(0, first));
  }

  void drop_conditions(runs::Batch& batch, const UVitOptions& model, std::uint64_t seed, std::int64_t first) const {
    if (!batch.source.defined() || settings_.drop == 0) return;
    for (std::int64_t image = 0; image < batch.source.size(0); ++image) {
      NumberedDraws draws(seed, drops, static_cast<std::uint64_t>(first + image));
      if (!draws.with_probability(settings_.drop)) continue;
      const NoiseCondition none = no_condition(model, 1);
      batch.source.select(0, image).copy_((by_class() ? none.classes : none.vectors)[0]);
    }
  }

  NoiseCondition condition_of(const runs::Batch& batch) const {
    if (by_class()) return {.classes = batch.source};
    return {.vectors = batch.source};
  }

  struct Predicted {
    at::Tensor noise;  // [B, C, H, W]
    at::Tensor alpha;  // of each image, [B, 1, 1, 1]; undefined where the network tells the noise itself
  };
  Predicted predict(UVit& model, const runs::Batch& batch, const nn::ForwardContext& context) const {
    const at::Tensor output = model->forward(batch.inputs, batch.times, condition_of(batch), context);
    if (settings_.prediction == Prediction::noise) return {output, {}};
    const auto [alpha, sigma] = shares_at(settings_.schedule, batch.times, output);
    return {noise_of(settings_.prediction, output, nn::to_device(batch.inputs, output.device()), alpha, sigma), alpha};
  }

  // Of the noise, whatever the network tells; of each image.
  at::Tensor squared_errors(UVit& model, const runs::Batch& batch, const nn::ForwardContext& context) const {
    const at::Tensor noise = predict(model, batch, context).noise;
    return (noise - nn::to_device(batch.targets, noise.device())).square().flatten(1).mean(1);
  }

  // Where the held-out loss comes from: images with much noise decide what is drawn, those with little noise its
  // details.
  pages::TextTable loss_by_time(torch::nn::Module& module) const {
    const torch::NoGradGuard no_grad;
    auto model = nn::holder_of<UVit>(module);
    constexpr std::int64_t parts = 5;
    std::array<double, parts> sums{}, images{};
    for (std::int64_t first = 0; first < evaluated_; first += together) {
      const std::int64_t count = std::min(together, evaluated_ - first);
      const runs::Batch batch = held_out(first, count);
      const at::Tensor errors = squared_errors(model, batch, {}).to(at::kCPU, at::kDouble);
      const std::vector<double> when = held_out_times(first, count);
      for (std::int64_t image = 0; image < count; ++image) {
        const auto t = when[static_cast<std::size_t>(image)];
        const auto part =
            static_cast<std::size_t>(std::min<std::int64_t>(parts - 1, static_cast<std::int64_t>(parts * t)));
        sums[part] += errors[image].item<double>();
        ++images[part];
      }
    }
    pages::TextTable table{"Held-out loss by time", {"time, from image to noise", "images", "loss"}, {}};
    for (std::size_t part = 0; part < parts; ++part)
      if (images[part] > 0)
        table.rows.push_back(
            {fmt::format("{:.1f} to {:.1f}", static_cast<double>(part) / parts, static_cast<double>(part + 1) / parts),
             fmt::format("{:.0f}", images[part]), fmt::format("{:.4f}", sums[part] / images[part])});
    return table;
  }

  // Images for the measures of tasks/images/measures/image_measures.h, of conditions as held-out images have them.
  SampleMeasures measured_samples(torch::nn::Module& module, std::uint64_t seed,
                                  const runs::ThoroughInspection& options) const {
    if (source_->facts().latents)
      throw UsageError(
          expected_got("evaluate: --samples", "0 for latents, which are no pictures", std::to_string(options.samples)));
    if (options.samples < 2)
      throw UsageError(expected_got("evaluate: --samples", "at least 2", std::to_string(options.samples)));
    auto model = nn::holder_of<UVit>(module);
    runs::SamplerOptions sampler;
    sampler.steps = options.sampler_steps.value_or(sampler.steps);
    if (!options.sampler.empty()) sampler.kind = runs::sampler_kind(options.sampler, "evaluate: --sampler");
    const std::int64_t conditions = source_->images(ImagePart::held_out);
    std::int64_t first = 0;
    const ImageStream stream = [&]() -> std::optional<at::Tensor> {
      const std::int64_t place = first % conditions;
      const std::int64_t count = std::min({together, options.samples - first, conditions - place});
      if (count == 0) return std::nullopt;
      ImageDrawing drawing{.count = count,
                           .prediction = settings_.prediction,
                           .guidance = settings_.guidance,
                           .seed = seed,
                           .sampler = sampler,
                           .clip = true};
      drawing.condition = condition_like(unseen(place, count));
      drawing.first = first;
      options.progress(fmt::format("image {} of {}", first, options.samples));
      first += count;
      return draw_images(model, settings_.schedule, drawing);
    };
    const std::string how = fmt::format("by {} steps of {}, seed {}", sampler.steps,
                                        runs::sampler_names()[static_cast<std::size_t>(sampler.kind)], seed);
    return sample_measures(*source_, stream, how, options);
  }

  NoiseCondition condition_like(const ImageBatch& images) const {
    if (by_class()) return {.classes = images.labels};
    return {.vectors = by_context() ? images.contexts : at::Tensor()};
  }

  // The first images of a seed: from equal noise, whatever the model. Conditions are those of held-out images.
  runs::Inspection show(torch::nn::Module& module, std::uint64_t seed, std::int64_t count) const {
    auto model = nn::holder_of<UVit>(module);
    const torch::NoGradGuard no_grad;
    runs::Inspection inspection;
    const std::int64_t shown = std::min(count, source_->images(ImagePart::held_out));
    ImageDrawing drawing{.count = shown,
                         .prediction = settings_.prediction,
                         .seed = seed,
                         .sampler = {.steps = 20},
                         .clip = !source_->facts().latents};
    const ImageBatch like = unseen(0, shown);
    drawing.condition = condition_like(like);
    drawing.guidance = settings_.guidance;
    const at::Tensor images = draw_images(model, settings_.schedule, drawing);
    if (!source_->facts().latents) {
      inspection.figures.push_back(pictures(images, like, std::min<std::int64_t>(24, shown)));
      if (const auto table = right_shapes(images, like)) inspection.tables.push_back(*table);
    }
    if (model->options().tokens() <= longest_maps) {
      const runs::Batch example = held_out(0, 1);
      inspection.whole_maps = true;
      inspection.tokens = token_names(model->options());
      inspection.set_maps(nn::attention_maps([&](const nn::ForwardContext& context) {
        model->forward(example.inputs, example.times, condition_of(example), context);
      }));
    }
    return inspection;
  }

  std::vector<std::string> token_names(const UVitOptions& options) const {
    std::vector<std::string> names;
    if (by_class()) names.emplace_back("class");
    names.emplace_back("time");
    for (std::int64_t token = 1; token <= options.condition_tokens; ++token) names.push_back(fmt::format("c{}", token));
    add_patch_names(names, options.image_size / options.patch);
    return names;
  }

  std::string asked(const ImageBatch& like, std::int64_t place) const {
    if (by_class()) return source_->class_names()[static_cast<std::size_t>(like.labels[place].item<std::int64_t>())];
    return by_context() && !like.captions.empty() ? like.captions[static_cast<std::size_t>(place)] : "";
  }

  runs::ShownFigure pictures(const at::Tensor& images, const ImageBatch& like, std::int64_t shown) const {
    PictureGrid grid{
        .pictures = {}, .columns = 8, .caption = "From the same noise for every model, in 20 steps of DPM-Solver++."};
    for (std::int64_t place = 0; place < shown; ++place)
      grid.pictures.push_back({image_of_tensor(images[place]), asked(like, place)});
    return {"Drawn images", std::move(grid)};
  }

  // Of toy shapes, where something was asked for: whether that was drawn.
  std::optional<pages::TextTable> right_shapes(const at::Tensor& images, const ImageBatch& like) const {
    if (source_->bytes() > 0 || settings_.condition == "none") return std::nullopt;
    std::int64_t right = 0, colors = 0, outlines = 0, none = 0;
    for (std::int64_t place = 0; place < images.size(0); ++place) {
      const ToyShapeKind wanted = toy_shape_kind(like.labels[place].item<std::int64_t>());
      const auto found = classify_shape(image_of_tensor(images[place]));
      if (!found) ++none;
      if (found && found->color == wanted.color) ++colors;
      if (found && found->outline == wanted.outline) ++outlines;
      if (found == wanted) ++right;
    }
    const auto share = [&](std::int64_t part) {
      return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(images.size(0)));
    };
    return pages::TextTable{
        "Whether the asked shape was drawn",
        {"images", "colour and shape", "colour", "shape", "no shape"},
        {{std::to_string(images.size(0)), share(right), share(colors), share(outlines), share(none)}}};
  }

  static constexpr std::int64_t longest_maps = 100;  // tokens; maps of more are too large for a page

  DiffusionSettings settings_;
};

std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path& folder) {
  runs::TaskOptionReader reader(config.task);
  const auto source = image_source(reader, config, folder);
  DiffusionSettings settings{.schedule = noise_schedule(reader)};
  settings.augmentation = image_augmentation(reader, !source->facts().latents);
  settings.prediction = prediction_of(reader);
  settings.condition = reader.word("condition", "none", {"none", "class", "context"});
  const std::string encoder = reader.path("encoder");
  const std::int64_t caption_tokens = reader.whole("caption_tokens", 16, {2, 1 << 10});
  const std::string encoder_sha256 = reader.later_text("encoder_sha256");
  holds_latents(reader);  // recorded below
  if (!encoder.empty()) {
    settings.encoder = std::make_shared<CaptionEncoder>(encoder, caption_tokens);
    settings.encoder->expect(encoder_sha256, encoder);
  }
  settings.drop = reader.number("drop", settings.drop, Range<double>{.min = 0, .max = 1, .max_excluded = true});
  settings.guidance = reader.number("guidance", settings.guidance, runs::guidance_range);
  if (settings.guidance > 0 && (settings.drop == 0 || settings.condition == "none"))
    throw UsageError(expected_got("task.guidance", "0 without a condition that is dropped at times (task.drop)",
                                  number_text(settings.guidance)));
  runs::TaskOptions options = reader.finish();
  if (settings.encoder) options.values["encoder_sha256"] = settings.encoder->sha256();
  if (source->facts().latents) options.values["latents"] = true;
  return make_diffusion(source, settings, std::move(options));
}

runs::Preset preset() {
  UVitOptions model;
  model.layers = 5, model.heads = 4, model.width = 128, model.patch = 4;
  return {
      .name = "diffusion",
      .summary = "coloured shapes, or --images; a U-ViT of 5 layers, width 128, batch 64",
      .model = model,
      .training = {.batch = 64, .learning_rate = 2e-3, .final_learning_rate = 2e-5, .ema = 0.99, .curve_tokens = 512},
      .evaluated_tokens = 10000,
      .seconds = 330,
      .steps = 1000,
      .task = {"diffusion", {}}};
}

}  // namespace
}  // namespace cogwheel::tasks::images::diffusion

namespace cogwheel::tasks::images {

std::shared_ptr<const runs::Task> make_diffusion(std::shared_ptr<const ImageSource> source,
                                                 const DiffusionSettings& settings, runs::TaskOptions options) {
  return std::make_shared<diffusion::Diffusion>(std::move(source), settings, std::move(options));
}

runs::TaskEntry diffusion_task() {
  return {.description = diffusion::describe(),
          .make = diffusion::make,
          .sampler = {{"--count", "--class", "--prompt", "--context", "--guidance", "--sampler", "--sampler-steps",
                       "--eta", "--unclipped", "--interpolate", "--out", "--seed"},
                      sample_images},
          .random = random_diffusion,
          .preset = diffusion::preset,
          .data_keys = "task.images"};
}
}  // namespace cogwheel::tasks::images
