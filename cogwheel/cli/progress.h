// Progress of training: on a terminal one bar that redraws itself, elsewhere an occasional plain line.
#pragma once
#include <cstdio>
#include <string>

#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/core/wording/count_text.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::cli {

// What a bar says; only the first and the last are never left out.
struct ProgressWords {
  std::string step, loss, measured, speed, left;  // empty: nothing to say

  // "step 3/10  loss 1.2345  held-out 1.3000  12.3 k tokens/s  9 s left".
  std::string text() const;
};

// A label, a bar of which `share` is done and the words, in at most `columns` columns: the bar shrinks first; then what
// does not fit is left out, the least important first.
std::string progress_line(const std::string& label, double share, ProgressWords words, std::size_t columns);

class Progress {
 public:
  // `label_of_measure`: Measure::label of the deciding measure.
  // `counted`: TaskDescription::counted.
  explicit Progress(std::string label_of_measure, std::string counted = "tokens", std::FILE* stream = stderr);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The state of a job. The bar is drawn at most ten times a second; a plain line is written at each evaluation, and
  // every ten seconds. The remaining time is estimated from the reports since the first one of a label.
  void show(const std::string& label, const runs::StepReport& report);
  // The state of another job, of which `share` is done, as words that say it: drawn as often.
  void show(const std::string& label, double share, ProgressWords words);
  // Prints a permanent line above the bar.
  void line(const std::string& text);
  // Removes the bar.
  void clear();

 private:
  ProgressWords describe(const runs::StepReport& report) const;
  bool is_due(bool always);
  void draw(const std::string& label, double share, const ProgressWords& words);
  void put(const std::string& text);

  std::string label_of_measure_, counted_;
  std::FILE* stream_;
  bool on_terminal_;
  bool drawn_ = false;
  std::string label_;
  std::int64_t first_step_ = 0;
  double first_share_ = 0;
  WallClock::time_point first_time_, last_time_;
  std::string measured_;
};

}  // namespace cogwheel::cli
