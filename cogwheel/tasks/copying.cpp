// Repeating a random string: "c a b |" is to be followed by "c a b". At each symbol a model has to find what followed
// the same place of the first half; which mechanisms can, and up to which length, is the question. Graves, Wayne and
// Danihelka, "Neural Turing Machines" (2014), section 4.1, with lengths up to half of the context.
#include <torch/types.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cogwheel/models/sampling.h"
#include "cogwheel/tasks/drawn_task.h"
#include "cogwheel/tasks/evaluation.h"
#include "cogwheel/tasks/task_options.h"
#include "cogwheel/tasks/tasks.h"

namespace cogwheel::copying {
namespace {

const TaskDescription& describe() {
  static const TaskDescription description{
      .name = "copying",
      .summary = "repeat a random string of symbols, of any length up to half of the context",
      .item = "symbol",
      .data =
          "Random strings of every length up to half of the context; those that are evaluated are trained on by chance "
          "alone.",
      .does_better = "copies better",
      .do_better = "copy better",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per copied symbol"},
          {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
  return description;
}

class Copying : public DrawnTask {
 public:
  Copying(std::int64_t symbols, TaskOptions options) : DrawnTask(std::move(options)), symbols_(symbols) {}

  const TaskDescription& description() const override { return describe(); }

  MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part,
                          StatisticsOfHeads* heads) const override {
    const auto means = mean_in_parts(
        evaluated(model, training, part), heads, [&](const Batch& some, const ForwardContext& given) -> PartialMeans {
          const at::Tensor logits = model_of(model).forward(some.inputs, given).cpu(),
                           counted = some.targets != ignored;
          return {{at::cross_entropy_loss(logits.flatten(0, 1), some.targets.flatten()).item<double>(),
                   (logits.argmax(-1) == some.targets).masked_select(counted).mean(at::kDouble).item<double>()},
                  counted.sum().item<double>()};
        });
    return {{"held_out_loss", means[0]}, {"accuracy", means[1]}};
  }

  // One example string, and accuracy by length.
  Inspection inspect(torch::nn::Module& module, std::uint64_t) const override {
    const torch::NoGradGuard no_grad;
    LanguageModel model = holder_of(module);
    const std::int64_t half = model->options().context / 2, length = std::min<std::int64_t>(half, 12);
    std::vector<Token> text;
    for (std::int64_t place = 0; place < length; ++place)
      text.push_back(static_cast<Token>(random(0, Part::held_out, 0, place) % symbols_));
    text.push_back(static_cast<Token>(symbols_));
    const std::vector<Token> answer = sample(model, text, {.length = length, .temperature = 0});
    std::vector<Token> whole = text;
    whole.insert(whole.end(), text.begin(), text.end() - 2);
    Inspection inspection = maps_of(model, whole, [this](Token token) { return letters({token}); });
    inspection.prompt = letters(text);
    inspection.sample = letters(answer);

    constexpr std::int64_t ranges = 4;
    const auto first = [&](std::int64_t range) { return half * range / ranges + 1; };
    // Of each range of lengths, the symbols that were counted and those of them that were right.
    const auto counts = mean_in_parts(
        evaluated(512, 2 * half), nullptr, [&](const Batch& some, const ForwardContext& given) -> PartialMeans {
          const at::Tensor counted = some.targets != ignored, lengths = counted.sum(1);
          const at::Tensor right = (model->forward(some.inputs, given).cpu().argmax(-1) == some.targets) & counted;
          PartialMeans sums{{}, 1};
          for (std::int64_t range = 0; range < ranges; ++range) {
            const at::Tensor within = ((lengths >= first(range)) & (lengths < first(range + 1))).unsqueeze(1);
            sums.means.push_back((counted & within).sum().item<double>());
            sums.means.push_back((right & within).sum().item<double>());
          }
          return sums;
        });
    inspection.tables = {{.title = "Accuracy by length", .columns = {"symbols", "accuracy"}, .rows = {}}};
    for (std::int64_t range = 0; range < ranges; ++range) {
      const double total = counts[static_cast<std::size_t>(2 * range)],
                   hits = counts[static_cast<std::size_t>(2 * range + 1)];
      if (total > 0)
        inspection.tables[0].rows.push_back(
            {fmt::format("{} to {}", first(range), first(range + 1) - 1), fmt::format("{:.3f}", hits / total)});
    }
    return inspection;
  }

 protected:
  std::int64_t vocabulary() const override { return symbols_ + 1; }
  std::shared_ptr<DrawnTask> copy() const override { return std::make_shared<Copying>(*this); }

  // Inputs are the string, a separator, the string again but for its last symbol, and separators; targets the copy.
  Batch draw(std::uint64_t seed, Part part, std::int64_t first, std::int64_t count,
             std::int64_t context) const override {
    const Batch batch{at::full({count, context}, symbols_, at::kLong), at::full({count, context}, ignored, at::kLong),
                      count * context};
    auto inputs = batch.inputs.accessor<std::int64_t, 2>(), targets = batch.targets.accessor<std::int64_t, 2>();
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t length = 1 + random(seed, part, first + row, -1) % (context / 2);
      for (std::int64_t place = 0; place < length; ++place) {
        const std::int64_t symbol = random(seed, part, first + row, place) % symbols_;
        inputs[row][place] = targets[row][length + place] = symbol;
        if (place + 1 < length) inputs[row][length + 1 + place] = symbol;
      }
    }
    return batch;
  }

 private:
  std::string letters(const std::vector<Token>& tokens) const {
    std::string text;
    for (const Token token : tokens) text += token < symbols_ ? static_cast<char>('a' + token) : '|';
    return text;
  }

  std::int64_t symbols_;
};

}  // namespace
}  // namespace cogwheel::copying

namespace cogwheel {
TaskEntry copying_task() {
  return {copying::describe(),
          [](const RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const Task> {
            TaskOptionReader reader(config.task);
            const std::int64_t symbols = reader.whole("symbols", 8, {2, 26});
            return std::make_shared<copying::Copying>(symbols, reader.finish());
          }};
}
}  // namespace cogwheel
