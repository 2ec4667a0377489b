// A run that takes milliseconds.
#pragma once
#include <cmath>
#include <memory>
#include <string>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/training/train_in_folder.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_form.h"
#include "cogwheel/tasks/language/language_modelling.h"

namespace cogwheel::runs {

inline std::shared_ptr<const text::Dataset> tiny_data() {
  text::Corpus corpus{.name = "tiny", .text = {}, .sha256 = {}, .files = {}};
  for (int line = 0; line < 200; ++line) corpus.text += "line " + std::to_string(line * line) + " of the text\n";
  corpus.sha256 = cogwheel::sha256(corpus.text);
  return std::make_shared<text::Dataset>(text::make_dataset(corpus, "character", 16));
}

inline std::shared_ptr<const Task> tiny_task() { return tasks::language::make_language_modelling(tiny_data()); }

inline tasks::language::LanguageModelOptions tiny_model(const std::string& mechanism = "softmax") {
  return {.context = 16, .layers = 2, .heads = 2, .width = 32, .mechanism = mechanism};
}

inline tasks::language::LanguageModelOptions tiny_llama(const std::string& mechanism = "softmax") {
  tasks::language::LanguageModelOptions model = tiny_model(mechanism);
  tasks::language::set_form(model, "llama");
  model.heads = 4;
  return model;
}

inline TrainingOptions tiny_training() {
  return {.steps = 24,
          .batch = 4,
          .learning_rate = 5e-3,
          .warm_up = 4,
          .seed = 5,
          .report_every = 5,
          .evaluate_every = 8,
          .checkpoint_every = 6};
}

inline TrainingRun tiny_run(const std::string& mechanism = "softmax") {
  return {tiny_model(mechanism), tiny_training(), tiny_task()};
}

inline tasks::language::LanguageModel language_model(const TrainingRun& run) {
  return nn::holder_of<tasks::language::LanguageModel>(*run.model());
}

// The measured held-out loss; NaN where there is none.
inline double held_out_loss(const MeasuredValues& values) {
  const double* value = find_value(values, "held_out_loss");
  return value != nullptr ? *value : std::nan("");
}

inline bool same_weights(TrainingRun& first, TrainingRun& second) {
  const auto weights = second.model()->named_parameters();
  for (const auto& parameter : first.model()->named_parameters())
    if (!parameter.value().equal(weights[parameter.key()])) return false;
  return true;
}

}  // namespace cogwheel::runs
