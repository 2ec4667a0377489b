// Progress of training: on a terminal one bar that redraws itself, elsewhere a plain line now and then.
#pragma once
#include <chrono>
#include <cstdio>
#include <string>

#include "cogwheel/core/duration_text.h"
#include "cogwheel/train/step_report.h"

namespace cogwheel {

// "950", "12.3 k", "1.5 M".
std::string count_text(double count);

class Progress {
 public:
  explicit Progress(std::FILE* stream = stderr);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Where a job stands. A bar is drawn ten times a second at most; a plain line is written where held-out loss is
  // known, and every ten seconds. The time left is judged from the first report of a label on.
  void show(const std::string& label, const StepReport& report);
  // A line that stays, above the bar.
  void line(const std::string& text);
  // Removes the bar.
  void clear();

  bool on_terminal() const { return on_terminal_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::string describe(const StepReport& report) const;

  std::FILE* stream_;
  bool on_terminal_;
  bool drawn_ = false;
  std::string label_;
  std::int64_t first_step_ = 0;
  Clock::time_point first_time_, last_time_;
  std::string held_out_;
};

}  // namespace cogwheel
