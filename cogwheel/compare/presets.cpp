#include "cogwheel/compare/presets.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/tasks/encoders/encoder_options.h"
#include "cogwheel/tasks/handwriting/handwriting_options.h"
#include "cogwheel/tasks/images/u_vit_options.h"
#include "cogwheel/tasks/images/vision_transformer_options.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "cogwheel/tasks/translation/sequence_to_sequence_options.h"

namespace cogwheel {
namespace {

Preset preset(std::string_view name, std::string_view summary, std::int64_t layers, std::int64_t heads,
              std::int64_t width, std::int64_t context, std::int64_t batch) {
  LanguageModelOptions model;
  model.layers = layers;
  model.heads = heads;
  model.width = width;
  model.context = context;
  Preset made{
      .name = name, .summary = summary, .model = model, .training = {}, .evaluated_tokens = 65536, .seconds = 330};
  made.training.batch = batch;
  made.training.curve_tokens = 4096;
  return made;
}

// Long enough for softmax to learn the task. Rotary positions: learned ones know nothing beyond the trained length.
Preset task_preset(std::string_view name, std::string_view summary, std::map<std::string, ConfigValue> options,
                   std::int64_t context, std::int64_t batch, std::int64_t steps) {
  Preset made = preset(name, summary, 2, 2, 64, context, batch);
  made.task = {std::string(name), std::move(options)};
  made.form = "llama";
  made.steps = steps;
  made.evaluated_tokens = 32768;
  made.training.learning_rate = 1e-3;
  made.training.final_learning_rate = 1e-4;
  return made;
}

Preset ioi_preset() {
  Preset made =
      preset("ioi", "two names, one of which comes again; 4 layers, 4 heads, width 128, batch 64", 4, 4, 128, 32, 64);
  made.task = {"ioi", {}};
  made.steps = 1500;
  made.evaluated_tokens = 32768;
  made.training.learning_rate = 2e-3;
  made.training.final_learning_rate = 2e-5;
  return made;
}

// Models of other topologies, trained as their papers' are but for the size.
Preset translation_preset() {
  SequenceToSequenceOptions model;
  model.width = 128;
  model.context = 40;
  model.feed_forward = 4 * model.width;  // which balances what alignments add
  model.dropout = 0.1;
  Preset made{.name = "translation",
              .summary = "the toy language, or --source and --target; GRU, width 128, batch 64",
              .model = model,
              .training = {},
              .evaluated_tokens = 1000,
              .seconds = 330,
              .steps = 1500,
              .attention = {"bahdanau", "none", "luong_general", "bahdanau_cog"},
              .task = {"translation", {{"label_smoothing", 0.1}}}};
  made.training.batch = 64;
  made.training.curve_tokens = 256;
  made.training.learning_rate = 2e-3;
  made.training.final_learning_rate = 1e-4;
  return made;
}

Preset handwriting_preset() {
  HandwritingOptions model;
  model.width = 128;
  Preset made{.name = "handwriting",
              .summary = "the built-in font, or --strokes; 3 LSTM layers of 128, batch 32",
              .model = model,
              .training = {},
              .evaluated_tokens = 500,
              .seconds = 330,
              .steps = 1000,
              .attention = {"graves_window", "none"},
              .task = {"handwriting", {}}};
  made.training.batch = 32;
  made.training.curve_tokens = 128;
  made.training.learning_rate = 2e-3;
  made.training.final_learning_rate = 1e-4;
  return made;
}

Preset images_preset() {
  VisionTransformerOptions model;
  model.layers = 4, model.heads = 4, model.width = 96;
  Preset made{.name = "images",
              .summary = "coloured shapes, or --images; a vision transformer of 4 layers, width 96, batch 64",
              .model = model,
              .training = {},
              .evaluated_tokens = 10000,
              .seconds = 330,
              .steps = 1000,
              .task = {"images", {}}};
  made.training.batch = 64;
  made.training.curve_tokens = 512;
  made.training.final_learning_rate = 1e-5;
  return made;
}

Preset diffusion_preset() {
  UVitOptions model;
  model.layers = 5, model.heads = 4, model.width = 128, model.patch = 4;
  Preset made{.name = "diffusion",
              .summary = "coloured shapes, or --images; a U-ViT of 5 layers, width 128, batch 64",
              .model = model,
              .training = {},
              .evaluated_tokens = 10000,
              .seconds = 330,
              .steps = 1000,
              .task = {"diffusion", {}}};
  made.training.batch = 64;
  made.training.curve_tokens = 512;
  made.training.learning_rate = 2e-3;
  made.training.final_learning_rate = 2e-5;
  made.training.ema = 0.99;
  return made;
}

Preset sentences_preset(std::string_view task, std::string_view data) {
  EncoderOptions model;
  model.layers = 4, model.heads = 4, model.width = 128, model.context = 64, model.dropout = 0.1;
  Preset made{.name = task,
              .summary = data,
              .model = model,
              .training = {},
              .evaluated_tokens = 10000,
              .seconds = 330,
              .steps = 1000,
              .task = {std::string(task), {}}};
  made.training.batch = 32;
  made.training.curve_tokens = 512;
  made.training.learning_rate = 5e-4;
  made.training.final_learning_rate = 5e-6;
  return made;
}

std::array<Preset, 14> make_presets() {
  // nanoGPT's configuration for a CPU; its other settings (β₂ 0.99, weight decay 0.1, clip 1, no biases, tied head) are
  // the defaults of model and training.
  Preset small = preset("small", "4 layers, 4 heads, width 128, context 64, batch 12; 5 to 9 minutes on two cores", 4,
                        4, 128, 64, 12);
  Preset tiny =
      preset("tiny", "2 layers, 2 heads, width 32, context 32, batch 8; seconds, to try things out", 2, 2, 32, 32, 8);
  tiny.training.learning_rate = 3e-3;
  tiny.training.final_learning_rate = 3e-4;
  tiny.training.curve_tokens = 1024;
  tiny.evaluated_tokens = 8192;
  tiny.seconds = 15;
  Preset medium = preset("medium", "6 layers, 6 heads, width 384, context 256, batch 16; hours", 6, 6, 384, 256, 16);
  medium.training.curve_tokens = 16384;
  medium.evaluated_tokens = 262144;
  medium.seconds = 4 * 3600;
  const auto whole = [](std::int64_t number) { return ConfigValue(number); };
  return {small,
          tiny,
          medium,
          task_preset("recall", "up to 16 pairs, tested up to 64; 2 layers, 2 heads, width 64",
                      {{"pairs", whole(16)}, {"doubled_after", whole(400)}}, 256, 32, 2000),
          task_preset("parity", "up to 32 bits, tested up to 128; 2 layers, 2 heads, width 64", {{"length", whole(32)}},
                      128, 32, 3000),
          task_preset("permutations", "S5, up to 16 permutations, tested up to 64; 2 layers, 2 heads, width 64",
                      {{"length", whole(16)}}, 64, 64, 10000),
          task_preset("copying", "strings up to 16 symbols, tested up to 64; 2 layers, 2 heads, width 64",
                      {{"length", whole(16)}}, 128, 32, 3000),
          ioi_preset(),
          translation_preset(),
          handwriting_preset(),
          sentences_preset("sentences", "made-up reviews, or --sentences; an encoder of 4 layers, width 128, batch 32"),
          sentences_preset("masked_words", "the same, whose hidden words are told"),
          images_preset(),
          diffusion_preset()};
}

}  // namespace

std::span<const Preset> presets() {
  static const std::array<Preset, 14> all = make_presets();
  return all;
}

const Preset& find_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.emplace_back(preset.name);
  }
  throw UsageError(expected_got("--preset", expected_names(name, names), name));
}

TrainingOptions with_steps(TrainingOptions training, std::int64_t steps) {
  training.steps = steps;
  training.warm_up = std::min<std::int64_t>(100, steps / 10);
  training.evaluate_every = std::max<std::int64_t>(1, (steps + 9) / 10);
  training.report_every = std::clamp<std::int64_t>(steps / 50, 1, 10);
  training.checkpoint_every = std::max<std::int64_t>(50, (steps + 3) / 4);
  return training;
}

}  // namespace cogwheel
