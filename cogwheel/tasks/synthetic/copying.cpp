// Repeating a random string: "c a b |" is to be followed by "c a b". At each symbol a model has to find what followed
// the same place of the first half; which mechanisms can, and up to which length, is the question. Graves, Wayne and
// Danihelka, "Neural Turing Machines" (2014), section 4.1, with lengths up to half of the context or to a shorter one.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic::copying {
namespace {

const runs::TaskDescription& describe() {
  static const runs::TaskDescription description{
      .name = "copying",
      .summary = "repeat a random string of symbols, of any length up to half of the context",
      .item = "symbol",
      .data =
          "Random strings of every length up to the longest; those that are evaluated are trained on by chance alone.",
      .does_better = "copies better",
      .do_better = "copy better",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per copied symbol"},
          {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
  return description;
}

class Copying : public SampledTask {
 public:
  Copying(std::int64_t symbols, std::int64_t length, runs::TaskOptions options)
      : SampledTask(std::move(options)), symbols_(symbols), length_(length) {}

  const runs::TaskDescription& description() const override { return describe(); }

  // A string that the model repeats, token by token.
  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t, const runs::ThoroughInspection*) const override {
    const torch::NoGradGuard no_grad;
    language::LanguageModel model = nn::holder_of<language::LanguageModel>(module);
    const std::int64_t length = std::min<std::int64_t>(difficulty(model->options().context).trained, 12);
    const Draws draws(0, Part::held_out, 0);
    std::vector<Token> text;
    for (std::int64_t place = 0; place < length; ++place)
      text.push_back(static_cast<Token>(draws.at(place) % symbols_));
    text.push_back(static_cast<Token>(symbols_));
    const std::vector<Token> answer = language::sample(model, text, {.length = length, .temperature = 0});
    std::vector<Token> whole = text;
    whole.insert(whole.end(), text.begin(), text.end() - 2);
    runs::Inspection inspection = maps_of(model, whole, [this](Token token) { return letters({token}); });
    inspection.prompt = letters(text);
    inspection.sample = letters(answer);
    inspection.by_difficulty = {by_difficulty(model)};
    inspection.tables = tables_of(inspection.by_difficulty.front());
    return inspection;
  }

 protected:
  std::int64_t vocabulary() const override { return symbols_ + 1; }
  std::string label(Token token) const override { return letters({token}); }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<Copying>(*this); }

  Difficulty difficulty(std::int64_t context) const override {
    return {.name = "length", .trained = length_ > 0 ? length_ : context / 2, .largest = context / 2};
  }
  std::int64_t tokens(std::int64_t length) const override { return 2 * length; }
  // A context of odd size has a token to spare.
  std::int64_t window(std::int64_t context) const override { return length_ > 0 ? tokens(length_) : context; }

  // Inputs are the string, a separator, the string again but for its last symbol, and separators; targets the copy.
  void write(const Draws& draws, std::int64_t length, const Sequence& sequence) const override {
    const auto copied = static_cast<std::size_t>(length);
    for (std::size_t place = 0; place < copied; ++place) {
      const std::int64_t symbol = draws.at(static_cast<std::int64_t>(place)) % symbols_;
      sequence.inputs[place] = sequence.targets[copied + place] = symbol;
      if (place + 1 < copied) sequence.inputs[copied + 1 + place] = symbol;
    }
  }

 private:
  std::string letters(const std::vector<Token>& tokens) const {
    std::string text;
    for (const Token token : tokens) text += token < symbols_ ? static_cast<char>('a' + token) : '|';
    return text;
  }

  std::int64_t symbols_;
  std::int64_t length_;  // the longest string of training; 0: half of the context
};

}  // namespace
}  // namespace cogwheel::tasks::synthetic::copying

namespace cogwheel::tasks::synthetic {
runs::TaskEntry copying_task() {
  return {.description = copying::describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            runs::TaskOptionReader reader(config.task);
            const std::int64_t symbols = reader.whole("symbols", 8, {2, 26});
            const std::int64_t length = reader.later_whole("length", 0, {0, 1 << 16});
            return std::make_shared<copying::Copying>(symbols, length, reader.finish());
          },
          .preset =
              [] {
                return sampled_preset("copying",
                                      "strings up to 16 symbols, tested up to 64; 2 layers, 2 heads, width 64",
                                      {{"length", std::int64_t{16}}}, 128, 32, 3000);
              }};
}
}  // namespace cogwheel::tasks::synthetic
