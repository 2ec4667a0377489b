// Indirect object identification (tasks/synthetic/ioi_data.h): "After Mary and John went to the park , John gave a ring
// to" is answered by "Mary". A small model learns it within minutes, so that what its heads do can be studied (cogwheel
// inspect ioi). Unlike a language model of text, it is asked for nothing else: only the last word of a prompt has a
// target.
#include "cogwheel/tasks/synthetic/ioi_data.h"

#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_task.h"
#include "cogwheel/tasks/language/language_preset.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic::ioi {
namespace {

const runs::TaskDescription& describe() {
  static const runs::TaskDescription description{
      .name = "ioi",
      .summary = "name the one of two people who receives something (indirect object identification)",
      .item = "word",
      .data =
          "Sentences of two names, one of which comes again: the other one is to be told. Held-out prompts have pairs "
          "of "
          "names that training never shows.",
      .does_better = "tells indirect objects better",
      .do_better = "tell indirect objects better",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per answer"},
          {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
  return description;
}

// The difficulty is the number of sentences, of which all but the last are without a name.
class IndirectObjects : public SampledTask {
 public:
  explicit IndirectObjects(runs::TaskOptions recorded) : SampledTask(std::move(recorded)) {}

  const runs::TaskDescription& description() const override { return describe(); }
  std::vector<runs::RunFile> assets() const override { return {{runs::tokenizer_file, ioi_tokenizer()->to_json()}}; }

 protected:
  std::int64_t vocabulary() const override { return ioi_tokenizer()->vocabulary(); }
  std::string label(Token token) const override { return ioi_tokenizer()->piece(token); }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<IndirectObjects>(*this); }

  Difficulty difficulty(std::int64_t) const override {
    return {.name = "sentences", .trained = 1 + most_ioi_openings, .largest = 1 + most_ioi_openings};
  }
  std::int64_t tokens(std::int64_t sentences) const override { return longest_ioi_prompt(sentences - 1); }

  void write(const Draws& draws, std::int64_t sentences, const Sequence& sequence) const override {
    const std::uint64_t number = (std::uint64_t{draws.at(-2)} << 32) | draws.at(-3);
    NumberedDraws of_prompt(number, 0x696f69, 0);
    const IoiPrompt prompt =
        draw_ioi_prompt(of_prompt, draws.part() == Part::training ? IoiPairs::seen : IoiPairs::unseen, sentences - 1);
    std::copy(prompt.tokens.begin(), prompt.tokens.end(), sequence.inputs.begin());
    sequence.targets[prompt.end()] = prompt.io;
  }
};

// The likeliest word after the prompt, and after that and so on.
void sample_words(const runs::RunFolder& folder, const runs::SampleRequest& request, const runs::SampleWriter& write) {
  const std::shared_ptr<language::LanguageModel> model = language::load_language_model(folder);
  const auto tokenizer = text::load_sentence_tokenizer(folder.tokenizer_path());
  std::vector<Token> prompt = tokenizer->encode(request.prompt, "--prompt");
  for (const Token token : prompt)
    if (token == text::SentenceTokens::unknown)
      throw UsageError(
          expected_got("--prompt", "words of the task, names with a capital and commas apart", request.prompt));
  prompt.insert(prompt.begin(), text::SentenceTokens::begin);
  if (write(request.prompt))
    language::sample(*model, prompt, request.sampling,
                     [&](Token token) { return write(" " + tokenizer->piece(token)); });
}

runs::Preset preset() {
  runs::Preset made = language::language_preset(
      "ioi", "two names, one of which comes again; 4 layers, 4 heads, width 128, batch 64", 4, 4, 128, 32, 64);
  made.task = {"ioi", {}};
  made.steps = 1500;
  made.evaluated_tokens = 32768;
  made.training.learning_rate = 2e-3;
  made.training.final_learning_rate = 2e-5;
  return made;
}

}  // namespace
}  // namespace cogwheel::tasks::synthetic::ioi

namespace cogwheel::tasks::synthetic {
runs::TaskEntry ioi_task() {
  return {.description = ioi::describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            return std::make_shared<ioi::IndirectObjects>(runs::TaskOptionReader(config.task).finish());
          },
          .sampler = {{"--prompt", "--length", "--temperature", "--top-k", "--seed"}, ioi::sample_words},
          .preset = ioi::preset};
}
}  // namespace cogwheel::tasks::synthetic
