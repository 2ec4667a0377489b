// What tasks share whose sequences are drawn, each once, by seed, part and number: no data to load, to hash or to run
// out of. A sequence has a difficulty, such as its length: training shows those up to one, and a trained model is also
// measured at each of several, up to the largest that fits into the context.
//
// A sequence of the largest trained difficulty may be shorter than the context: training and the measures use windows
// of its length, and the rest of the context is for what lies beyond.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/language_model_task.h"
#include "cogwheel/tasks/language/language_preset.h"

namespace cogwheel::tasks::synthetic {

class SampledTask : public language::LanguageModelTask {
 public:
  runs::DataFacts data(const runs::ModelOptions& model, const runs::TrainingOptions& training) const override;
  runs::RunConfig completed(runs::RunConfig config) const override;
  runs::Batch batch(const torch::nn::Module& model, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override;
  runs::MeasuredValues evaluate(torch::nn::Module& model, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override;
  // Maps and answers of one sequence, and accuracy by difficulty.
  runs::Inspection inspect(torch::nn::Module& model, std::uint64_t seed,
                           const runs::ThoroughInspection*) const override;
  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated_tokens) const override;
  std::shared_ptr<const runs::Task> for_tuning() const override;
  // The first of the sequences on which a model is measured.
  runs::Batch held_out_sequences(const torch::nn::Module& model, std::int64_t count) const;

 protected:
  // Which of the sequences: no two parts share one by more than chance.
  enum class Part : std::uint32_t { training, held_out, tuning };

  struct Difficulty {
    std::string name;          // what its number counts: pairs
    std::int64_t trained = 0;  // the largest that training shows
    std::int64_t largest = 0;  // that the context holds
  };

  // The random numbers of one sequence.
  class Draws {
   public:
    Draws(std::uint64_t seed, Part part, std::int64_t sequence) : seed_(seed), part_(part), sequence_(sequence) {}
    // That of a place, which may be −1 and less for what is drawn of the sequence as a whole.
    std::uint32_t at(std::int64_t place) const;
    Part part() const { return part_; }

   private:
    std::uint64_t seed_;
    Part part_;
    std::int64_t sequence_;
  };

  // One row of a batch: the last token of the vocabulary everywhere, and no target.
  struct Sequence {
    std::span<std::int64_t> inputs, targets;
  };

  // `options` with every option of the task.
  explicit SampledTask(runs::TaskOptions options) : options_(std::move(options)) {}
  SampledTask(const SampledTask&) = default;

  virtual std::int64_t vocabulary() const = 0;
  virtual std::string label(Token token) const = 0;  // as a report shows it
  virtual std::shared_ptr<SampledTask> copy() const = 0;

  virtual Difficulty difficulty(std::int64_t context) const = 0;
  // The tokens of a sequence of a difficulty, and of a window of training.
  virtual std::int64_t tokens(std::int64_t difficulty) const = 0;
  virtual std::int64_t window(std::int64_t context) const { return tokens(difficulty(context).trained); }
  // The largest difficulty of a training step, for a task that begins with easier ones.
  virtual std::int64_t trained_at(std::int64_t /*step*/, std::int64_t trained) const { return trained; }
  // The difficulty of a training sequence; by default each from 1 on is as probable.
  virtual std::int64_t drawn_difficulty(const Draws& draws, std::int64_t trained) const {
    return 1 + draws.at(-1) % trained;
  }
  // Writes the first tokens(difficulty) inputs and their targets, the answers.
  virtual void write(const Draws& draws, std::int64_t difficulty, const Sequence& sequence) const = 0;
  // What is measured of a model, and the number of answers: the mean cross-entropy at these, held_out_loss, and the
  // share of right ones, accuracy. `heads`: as runs::mean_in_parts has it.
  struct Measured {
    runs::MeasuredValues values;
    std::int64_t answers = 0;
  };
  virtual Measured measured(language::LanguageModelImpl& model, const runs::Batch& all,
                            nn::StatisticsOfHeads* heads) const;
  // From which place on the answers of a sequence are of its difficulty.
  virtual std::int64_t first_answer(std::int64_t /*difficulty*/) const { return 0; }

  // The first sequences of those that are evaluated, of training's difficulties.
  runs::Batch evaluated(std::int64_t count, std::int64_t context) const;
  // The measures of a trained model at each of several difficulties, all but the loss.
  runs::MeasuresByDifficulty by_difficulty(language::LanguageModel& model) const;
  // The same, a table of each measure.
  std::vector<pages::TextTable> tables_of(const runs::MeasuresByDifficulty& measures) const;

 private:
  runs::Batch draw(std::uint64_t seed, Part part, std::int64_t first, std::int64_t count, std::int64_t context,
                   std::int64_t trained) const;
  runs::Batch draw_at(std::int64_t difficulty, std::int64_t count) const;
  runs::Batch padded(std::int64_t count, std::int64_t tokens) const;
  static Sequence row_of(const runs::Batch& batch, std::int64_t row);

  runs::TaskOptions options_;
  std::int64_t evaluated_tokens_ = 1 << 18;
  Part evaluated_ = Part::held_out;
};

// Long enough for softmax to learn the task. Rotary positions: learned ones know nothing beyond the trained length.
runs::Preset sampled_preset(std::string_view name, std::string_view summary,
                            std::map<std::string, runs::ConfigValue> options, std::int64_t context, std::int64_t batch,
                            std::int64_t steps);

}  // namespace cogwheel::tasks::synthetic
