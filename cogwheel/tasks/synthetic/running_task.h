// What tasks share that track a state: at every token of a random string, the state after it, so that a sequence shows
// every length up to its own. The tokens are the numbers below states(), each as probable.
//
// Or the last state alone counts, and may be worked out in steps: then a place follows every token, which holds the
// state, written by the model itself when it is measured, or nothing. Texts with steps and without are equally long,
// ask for the same answers at the same places, and so compare. Li, Liu, Zhou and Ma, "Chain of Thought Empowers
// Transformers to Solve Inherently Serial Problems" (2024), section 4, whose base, hint and cot are none, asked and
// written.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic {

// Of [task], for tasks that track a state.
struct RunningOptions {
  enum class Steps {
    dense,   // tokens follow each other, and the state after each is asked for
    none,    // nothing between tokens, and the last state alone is asked for
    asked,   // nothing between them, but training asks for every state
    written  // the states between them
  };
  std::int64_t length = 0;  // the longest string of training; 0: as long as the context holds
  Steps steps = Steps::dense;

  static RunningOptions read(runs::TaskOptionReader& reader);
};

class RunningTask : public SampledTask {
 public:
  const runs::TaskDescription& description() const override { return description_; }
  std::string measured_problems(const runs::ModelOptions& model, const runs::TrainingOptions& training) const override;

 protected:
  // `described`: as every state is asked for.
  RunningTask(const runs::TaskDescription& described, const RunningOptions& running, runs::TaskOptions options);

  virtual std::int64_t states() const = 0;
  virtual std::string name_of(std::int64_t state) const = 0;
  // The state after a token, also a number below states(); before the first it is 0.
  virtual std::int64_t next(std::int64_t state, std::int64_t token) const = 0;

  // With places between tokens, a state that is written or asked for is states() more than its number, and what holds
  // nothing is the last token.
  std::int64_t vocabulary() const override { return is_dense() ? states() : 2 * states() + 1; }
  std::string label(Token token) const override;
  Difficulty difficulty(std::int64_t context) const override;
  std::int64_t tokens(std::int64_t length) const override { return is_dense() ? length : 2 * length; }
  std::int64_t drawn_difficulty(const Draws& draws, std::int64_t trained) const override {
    return is_dense() ? trained : SampledTask::drawn_difficulty(draws, trained);
  }
  // Answers at the shorter half are those of shorter strings.
  std::int64_t first_answer(std::int64_t length) const override { return is_dense() ? length / 2 : 0; }
  void write(const Draws& draws, std::int64_t length, const Sequence& sequence) const override;
  Measured measured(language::LanguageModelImpl& model, const runs::Batch& all,
                    nn::StatisticsOfHeads* heads) const override;

 private:
  bool is_dense() const { return running_.steps == RunningOptions::Steps::dense; }

  runs::TaskDescription description_;
  RunningOptions running_;
};

}  // namespace cogwheel::tasks::synthetic
