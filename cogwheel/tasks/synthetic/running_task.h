// What tasks share that track a state: at every token of a random string, the state after it, so that a sequence shows
// every length up to its own. The tokens are the numbers below vocabulary(), each as probable.
#pragma once
#include <cstdint>
#include <utility>

#include "cogwheel/core/range.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic {

class RunningTask : public SampledTask {
 public:
  // The allowed lengths of training; 0: the context.
  static constexpr Range<std::int64_t> lengths{0, 1 << 16};

 protected:
  RunningTask(std::int64_t length, runs::TaskOptions options) : SampledTask(std::move(options)), length_(length) {}

  // The state after a token, also a number below vocabulary(); before the first it is 0.
  virtual std::int64_t next(std::int64_t state, std::int64_t token) const = 0;

  Difficulty difficulty(std::int64_t context) const override {
    return {.name = "length", .trained = length_ > 0 ? length_ : context, .largest = context};
  }
  std::int64_t tokens(std::int64_t length) const override { return length; }
  std::int64_t drawn_difficulty(const Draws&, std::int64_t trained) const override { return trained; }
  // Answers at the shorter half are those of shorter strings.
  std::int64_t first_answer(std::int64_t length) const override { return length / 2; }

  void write(const Draws& draws, std::int64_t length, const Sequence& sequence) const override {
    std::int64_t state = 0;
    for (std::int64_t place = 0; place < length; ++place) {
      const std::int64_t token = draws.at(place) % vocabulary();
      state = next(state, token);
      sequence.inputs[static_cast<std::size_t>(place)] = token;
      sequence.targets[static_cast<std::size_t>(place)] = state;
    }
  }

 private:
  std::int64_t length_;
};

}  // namespace cogwheel::tasks::synthetic
