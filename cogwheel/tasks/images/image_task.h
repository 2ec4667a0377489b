// The base of tasks that learn from images: their source, and how many of them are evaluated.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/tasks/images/image_data.h"

namespace cogwheel::tasks::images {

class ImageTask : public runs::Task {
 public:
  ImageTask(std::shared_ptr<const ImageSource> source, const ImageAugmentation& augmentation, runs::TaskOptions options)
      : source_(std::move(source)),
        options_(std::move(options)),
        evaluated_(source_->images(ImagePart::held_out)),
        augmentation_(augmentation),
        training_(source_, augmentation) {}

  runs::DataFacts data(const runs::ModelOptions&, const runs::TrainingOptions& training) const override {
    return facts_of(training);
  }
  runs::DataFacts facts_of(const runs::TrainingOptions& training) const {
    return image_facts(*source_, description().item, vocabulary(), evaluated_, training);
  }
  std::string left_out() const override {
    const std::int64_t files = source_->facts().left_out;
    return files == 0 ? "" : "images: " + std::to_string(files) + (files == 1 ? " file" : " files") + " of other kinds";
  }
  std::vector<std::string> notes() const override { return source_->facts().notes; }

 protected:
  static constexpr std::int64_t together = 64;  // images of a pass in evaluation, whatever the training batch

  // Of the model.
  virtual std::int64_t vocabulary() const = 0;
  // How many images a part of the evaluation has.
  std::int64_t images_of(runs::EvaluationPart part, const runs::TrainingOptions& training) const {
    const runs::DataFacts facts = facts_of(training);
    return part == runs::EvaluationPart::curve ? facts.curve_tokens : facts.evaluated_tokens;
  }
  // What both tasks complete in a configuration, after the vocabulary: options of a model with patches, the hash, the
  // task. Throws UsageError where the model does not fit.
  template <class Options>
  void complete_images(runs::RunConfig& config) const {
    auto& model = config.model.as<Options>();
    fit_images(model.image_size, model.channels, *source_);
    runs::check(model);
    expect_valid(augmentation_, source_->height(), source_->width());
    if (source_->facts().latents && augmentation_.any())
      throw UsageError(expected_got("task.flip, task.crop_padding and task.erase", "none of latents", "some"));
    model.context = model.tokens();
    model.feed_forward = model.feed_forward_width();
    config.definition = runs::mechanism_text(model, "model.mechanism").definition;
    config.data.sha256 = source_->sha256();
    config.task = options_;
  }
  // The names of patches in maps, by row and column, from 1.
  static void add_patch_names(std::vector<std::string>& names, std::int64_t side) {
    for (std::int64_t row = 1; row <= side; ++row)
      for (std::int64_t column = 1; column <= side; ++column)
        names.push_back(std::to_string(row) + "," + std::to_string(column));
  }

  std::shared_ptr<const ImageSource> source_;
  runs::TaskOptions options_;
  std::int64_t evaluated_;
  ImageAugmentation augmentation_;
  mutable TrainingImages training_;
};

}  // namespace cogwheel::tasks::images
