// Two questions on digits: is there a zero among ones, and how many ones are there? "zero? 1 1 0 1 =" is to be answered
// by "yes", "ones? 1 0 1 =" by "2 ." They are the ones by which representations of long texts are told apart or not
// (research/inspect/collapse_prompts.h), answered. Barbero et al., "Transformers need glasses! Information
// over-squashing in language tasks" (2024), section 5; the paper of Cog attention, section 3.2. Unlike there, the ones
// to be counted stand among zeros, so that the length does not say how many there are.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/runs/mean_in_parts.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic::zeros_and_ones {
namespace {

// Of the vocabulary the ten digits come first.
enum Word : std::int64_t { is_there_a_zero = 10, how_many_ones, equals, yes, no, stop, words };
constexpr std::array<std::string_view, 6> names{"zero?", "ones?", "=", "yes", "no", "."};

const runs::TaskDescription& describe() {
  static const runs::TaskDescription description{
      .name = "zeros_and_ones",
      .summary = "say whether there is a zero among ones, and how many ones there are among zeros",
      .item = "digit",
      .data =
          "Ones, in half of the sequences with one zero; and digits of which any number are ones, each as probable.",
      .does_better = "answers better",
      .do_better = "answer better",
      .measures = {{.name = "held_out_loss",
                    .title = "held-out loss",
                    .label = "held-out",
                    .unit = "nats per token of an answer"},
                   {.name = "zero_accuracy",
                    .title = "accuracy of finding a zero",
                    .label = "zero",
                    .unit = "",
                    .lower_is_better = false},
                   {.name = "count_accuracy",
                    .title = "accuracy of counting ones",
                    .label = "count",
                    .unit = "",
                    .lower_is_better = false}}};
  return description;
}

constexpr Range<std::int64_t> lengths{0, 1 << 16};

class ZerosAndOnes : public SampledTask {
 public:
  ZerosAndOnes(std::int64_t length, runs::TaskOptions options) : SampledTask(std::move(options)), length_(length) {}

  const runs::TaskDescription& description() const override { return describe(); }

 protected:
  std::int64_t vocabulary() const override { return words; }
  std::string label(Token token) const override {
    return token < is_there_a_zero ? std::to_string(token)
                                   : std::string(names[static_cast<std::size_t>(token - is_there_a_zero)]);
  }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<ZerosAndOnes>(*this); }

  Difficulty difficulty(std::int64_t context) const override {
    std::int64_t largest = std::max<std::int64_t>(1, context - 3);
    while (largest > 1 && tokens(largest) > context) --largest;
    return {.name = "length", .trained = length_ > 0 ? length_ : largest, .largest = largest};
  }
  // The question, digits, "=", and all digits of the largest number but the last, which no input follows.
  std::int64_t tokens(std::int64_t length) const override {
    return length + 2 + static_cast<std::int64_t>(std::to_string(length).size());
  }

  void write(const Draws& draws, std::int64_t length, const Sequence& sequence) const override {
    const auto end = static_cast<std::size_t>(length) + 1;
    const std::span<std::int64_t> digits = sequence.inputs.subspan(1, static_cast<std::size_t>(length));
    sequence.inputs[end] = equals;
    if (draws.at(-2) % 2 == 0) {
      const bool has_zero = draws.at(-3) % 2 == 0;
      sequence.inputs[0] = is_there_a_zero;
      std::ranges::fill(digits, 1);
      if (has_zero) digits[draws.at(-4) % digits.size()] = 0;
      sequence.targets[end] = has_zero ? yes : no;
      return;
    }
    const std::int64_t ones = draws.at(-3) % (length + 1);
    sequence.inputs[0] = how_many_ones;
    for (std::int64_t place = 0, left = ones; place < length; ++place) {
      const bool one = draws.at(place) % (length - place) < left;
      digits[static_cast<std::size_t>(place)] = one ? 1 : 0;
      left -= one ? 1 : 0;
    }
    std::size_t place = end;
    for (const char digit : std::to_string(ones))
      sequence.inputs[place + 1] = sequence.targets[place] = digit - '0', ++place;
    sequence.targets[place] = stop;
  }

  // An answer is right where all its tokens are: then the model, asked to go on, writes it and stops.
  Measured measured(language::LanguageModelImpl& model, const runs::Batch& all,
                    nn::StatisticsOfHeads* heads) const override {
    const auto at_answers = [&](const runs::Batch& some, const nn::ForwardContext& given) -> runs::PartialMeans {
      const at::Tensor logits = model.forward(some.inputs, given).cpu(), counted = some.targets != ignored_target;
      const at::Tensor right = (logits.argmax(-1) == some.targets).logical_or(counted.logical_not()).all(1);
      const auto right_of = [&](Word asked) {
        return right.logical_and(some.inputs.select(1, 0) == asked).sum().item<double>();
      };
      return {.means = {at::cross_entropy_loss(logits.flatten(0, 1), some.targets.flatten()).item<double>()},
              .weight = counted.sum().item<double>(),
              .sums = {right_of(is_there_a_zero), right_of(how_many_ones)}};
    };
    const std::vector<double> found = runs::mean_in_parts(all, heads, at_answers);
    // Of few sequences none may ask it.
    const auto asking = [&](Word asked) {
      return std::max<double>(1, (all.inputs.select(1, 0) == asked).sum().item<double>());
    };
    return {{{"held_out_loss", found[0]},
             {"zero_accuracy", found[1] / asking(is_there_a_zero)},
             {"count_accuracy", found[2] / asking(how_many_ones)}},
            all.inputs.size(0)};
  }

 private:
  std::int64_t length_;  // the longest string of training; 0: as long as the context holds
};

}  // namespace
}  // namespace cogwheel::tasks::synthetic::zeros_and_ones

namespace cogwheel::tasks::synthetic {
runs::TaskEntry zeros_and_ones_task() {
  return {.description = zeros_and_ones::describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            runs::TaskOptionReader reader(config.task);
            const std::int64_t length = reader.whole("length", 0, zeros_and_ones::lengths);
            return std::make_shared<zeros_and_ones::ZerosAndOnes>(length, reader.finish());
          },
          .preset =
              [] {
                return sampled_preset("zeros_and_ones",
                                      "up to 32 digits, tested up to 256; 2 layers, 2 heads, width 64",
                                      {{"length", std::int64_t{32}}}, 261, 64, 3000);
              }};
}
}  // namespace cogwheel::tasks::synthetic
