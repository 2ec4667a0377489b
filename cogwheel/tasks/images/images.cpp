// Classifying images: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021). Of CIFAR-10, of folders of pictures,
// of tensors in a file, or of coloured shapes that are drawn.
#include "cogwheel/tasks/images/images.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/attention_maps.h"
#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/images/data/image_files.h"
#include "cogwheel/tasks/images/data/image_resize.h"
#include "cogwheel/tasks/images/image_task.h"
#include "cogwheel/tasks/images/picture_grid.h"
#include "cogwheel/tasks/images/vision_transformer.h"

namespace cogwheel::tasks::images::classification {
namespace {

runs::TaskDescription describe() {
  return {
      .name = "images",
      .summary = "tell what an image shows: of CIFAR-10, folders of pictures, or coloured shapes",
      .item = "image",
      .data = "Pictures of one coloured shape each, drawn without end.",
      .does_better = "classifies unseen images better",
      .do_better = "classify unseen images better",
      .counted = "images",
      .measures = {{.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false},
                   {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per image"}}};
}

// What a model makes of some images, in their order.
struct Answers {
  std::vector<std::int64_t> truth, best;
  double loss = 0, right = 0;  // sums
};

class Images : public ImageTask {
 public:
  Images(std::shared_ptr<const ImageSource> source, const ImageTaskSettings& settings, runs::TaskOptions options)
      : ImageTask(std::move(source), settings.augmentation, std::move(options)), settings_(settings) {
    if (source_->class_names().empty())
      throw Error(expected_got(source_->name(), "images with labels, to learn what they show", "none"));
    if (source_->class_names().size() == 1)
      throw Error(
          expected_got(source_->name(), "images of two classes at least", "only " + source_->class_names().front()));
  }

  const runs::TaskDescription& description() const override {
    static const runs::TaskDescription description = describe();
    return description;
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    runs::set_vocabulary(config, vocabulary(), ", the classes of " + source_->name());
    complete_images<VisionTransformerOptions>(config);
    return config;
  }

  std::vector<runs::RunFile> assets() const override { return {runs::class_names_file(source_->class_names())}; }

  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    nn::holder_of<VisionTransformer>(model)->initialize(seed);
  }

  runs::Batch batch(const torch::nn::Module&, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const ImageBatch drawn = training_.at_step(training, place.batches);
    return {.inputs = drawn.images, .targets = drawn.labels, .tokens = drawn.images.size(0)};
  }
  at::Tensor loss(torch::nn::Module& module, const runs::Batch& batch, std::uint64_t dropout_seed) const override {
    auto model = nn::holder_of<VisionTransformer>(module);
    return model->loss(batch.inputs, batch.targets, settings_.label_smoothing,
                       {.dropout = model->dropout(dropout_seed)});
  }

  runs::MeasuredValues evaluate(torch::nn::Module& module, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override {
    const std::int64_t count = images_of(part, training);
    const Answers answers = answer(module, count, heads);
    const auto images = static_cast<double>(count);
    return {{"accuracy", answers.right / images}, {"held_out_loss", answers.loss / images}};
  }

  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t, const runs::ThoroughInspection*) const override {
    const torch::NoGradGuard no_grad;
    auto model = nn::holder_of<VisionTransformer>(module);
    const ImageBatch first = held_out_images(*source_, 0, 1);
    runs::Inspection inspection;
    inspection.whole_maps = true;
    inspection.tokens = token_names(model->options());
    inspection.set_maps(
        nn::attention_maps([&](const nn::ForwardContext& context) { model->forward(first.images, context); }));
    const Answers answers = answer(module, evaluated_);
    inspection.tables = {by_class(answers)};
    if (!source_->facts().latents) inspection.figures = {examples(answers)};
    return inspection;
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    auto part = std::make_shared<Images>(source_, settings_, options_);
    part->evaluated_ = std::min(evaluated, evaluated_);
    return part;
  }
  std::shared_ptr<const runs::Task> for_tuning() const override {
    return std::make_shared<Images>(source_->for_tuning(), settings_, options_);
  }

 private:
  std::int64_t vocabulary() const override { return std::ssize(source_->class_names()); }
  const std::string& name_of(std::int64_t label) const {
    return source_->class_names()[static_cast<std::size_t>(label)];
  }

  Answers answer(torch::nn::Module& module, std::int64_t count, nn::StatisticsOfHeads* heads = nullptr) const {
    const torch::NoGradGuard no_grad;
    auto model = nn::holder_of<VisionTransformer>(module);
    Answers all;
    for (std::int64_t first = 0; first < count; first += together) {
      const ImageBatch some = held_out_images(*source_, first, std::min(together, count - first));
      nn::Hooks hooks;
      std::optional<nn::HeadObserver> observer;
      if (heads != nullptr && first == 0) observer.emplace(hooks);
      const at::Tensor logits = model->forward(some.images, {.hooks = observer ? &hooks : nullptr}).cpu();
      if (observer) *heads = observer->statistics();
      all.loss += at::cross_entropy_loss(logits.to(at::kDouble), some.labels, {}, at::Reduction::Sum).item<double>();
      const at::Tensor best = logits.argmax(-1);
      all.right += (best == some.labels).sum().item<double>();
      for (std::int64_t image = 0; image < best.size(0); ++image) {
        all.truth.push_back(some.labels[image].item<std::int64_t>());
        all.best.push_back(best[image].item<std::int64_t>());
      }
    }
    return all;
  }

  // "class", then the patches by row and column, from 1.
  static std::vector<std::string> token_names(const VisionTransformerOptions& options) {
    std::vector<std::string> names;
    if (options.pooling == "class") names.emplace_back("class");
    add_patch_names(names, options.image_size / options.patch);
    return names;
  }

  pages::TextTable by_class(const Answers& answers) const {
    pages::TextTable table{"By class", {"class", "images", "accuracy", "most often taken for"}, {}};
    for (std::int64_t label = 0; label < vocabulary(); ++label) {
      std::vector<std::int64_t> taken(static_cast<std::size_t>(vocabulary()));
      for (std::size_t i = 0; i < answers.truth.size(); ++i)
        if (answers.truth[i] == label) ++taken[static_cast<std::size_t>(answers.best[i])];
      const std::int64_t images = std::accumulate(taken.begin(), taken.end(), std::int64_t{0});
      if (images == 0) continue;
      const std::int64_t right = std::exchange(taken[static_cast<std::size_t>(label)], 0);
      const auto most = std::max_element(taken.begin(), taken.end());
      table.rows.push_back({name_of(label), std::to_string(images),
                            fmt::format("{:.1f} %", 100 * static_cast<double>(right) / static_cast<double>(images)),
                            *most == 0 ? "" : fmt::format("{} ({})", name_of(most - taken.begin()), *most)});
    }
    return table;
  }

  // Some of the first held-out images, what they show and what the model says.
  runs::ShownFigure examples(const Answers& answers) const {
    constexpr std::int64_t shown = 24;
    PictureGrid grid{
        .pictures = {}, .columns = 8, .caption = "Where that is wrong, what they show stands in brackets."};
    const std::int64_t count = std::min<std::int64_t>(shown, std::ssize(answers.truth));
    const ImageBatch images = held_out_images(*source_, 0, count);
    for (std::int64_t place = 0; place < count; ++place) {
      const std::int64_t truth = answers.truth[static_cast<std::size_t>(place)],
                         best = answers.best[static_cast<std::size_t>(place)];
      grid.pictures.push_back({image_of_tensor(images.images[place]),
                               truth == best ? name_of(best) : fmt::format("{} ({})", name_of(best), name_of(truth))});
    }
    return {"Unseen images, and what the model takes them for", std::move(grid)};
  }

  ImageTaskSettings settings_;
};

std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path& folder) {
  runs::TaskOptionReader reader(config.task);
  const auto source = image_source(reader, config, folder);
  ImageTaskSettings settings;
  settings.augmentation = image_augmentation(reader, false);
  settings.label_smoothing = reader.number("label_smoothing", settings.label_smoothing,
                                           Range<double>{.min = 0, .max = 1, .max_excluded = true});
  return make_image_task(source, settings, reader.finish());
}

// Classifies a picture, or each of a folder: its name, the classes that it most probably shows, with probabilities.
void classify(const runs::RunFolder& folder, const runs::SampleRequest& request, const runs::SampleWriter& write) {
  const torch::NoGradGuard no_grad;
  const runs::RunConfig config = runs::load_config(folder.config_path());
  VisionTransformer model(config.model.as<VisionTransformerOptions>());
  runs::load_weights_of(*model, config, folder);
  const std::vector<std::string> classes = runs::load_class_names(folder.path(), model->options().vocabulary);
  if (request.input.empty())
    throw UsageError(expected_got("sample: --input", "a PNG or JPEG file, or a folder", "none"));
  std::vector<std::filesystem::path> files{request.input};
  if (std::error_code problem; std::filesystem::is_directory(request.input, problem)) {
    files.clear();
    std::filesystem::directory_iterator entries(request.input, problem);
    if (problem) throw Error(expected_got(request.input.string(), "a folder that can be read", problem.message()));
    for (const auto& entry : entries)
      if (std::error_code unknown; entry.is_regular_file(unknown) && is_picture(entry.path()))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    if (files.empty()) throw Error(expected_got(request.input.string(), "PNG or JPEG files", "none"));
  }
  const std::int64_t size = model->options().image_size;
  bool first = true;
  for (const auto& file : files) {
    const Image image = centre_square(read_image(file), size);
    const at::Tensor shares = model->forward(tensor_of_image(image).unsqueeze(0)).softmax(-1).squeeze(0).cpu();
    const auto [values, labels] = shares.topk(std::min<std::int64_t>(3, shares.size(0)));
    std::string line = std::exchange(first, false) ? "" : "\n";
    if (files.size() > 1) line += file.filename().string() + "  ";
    for (std::int64_t place = 0; place < values.size(0); ++place)
      line += fmt::format("{}{} {:.3f}", place == 0 ? "" : "  ",
                          classes.at(static_cast<std::size_t>(labels[place].item<std::int64_t>())),
                          values[place].item<double>());
    if (!write(line)) return;
  }
}

runs::Preset preset() {
  VisionTransformerOptions model;
  model.layers = 4, model.heads = 4, model.width = 96;
  return {.name = "images",
          .summary = "coloured shapes, or --images; a vision transformer of 4 layers, width 96, batch 64",
          .model = model,
          .training = {.batch = 64, .final_learning_rate = 1e-5, .curve_tokens = 512},
          .evaluated_tokens = 10000,
          .seconds = 330,
          .steps = 1000,
          .task = {"images", {}}};
}

}  // namespace
}  // namespace cogwheel::tasks::images::classification

namespace cogwheel::tasks::images {

std::shared_ptr<const runs::Task> make_image_task(std::shared_ptr<const ImageSource> source,
                                                  const ImageTaskSettings& settings, runs::TaskOptions options) {
  return std::make_shared<classification::Images>(std::move(source), settings, std::move(options));
}

runs::TaskEntry images_task() {
  return {.description = classification::describe(),
          .make = classification::make,
          .sampler = {{"--input"}, classification::classify},
          .random = random_image_task,
          .preset = classification::preset,
          .data_keys = "task.images"};
}
}  // namespace cogwheel::tasks::images
