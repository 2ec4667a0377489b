#include "cogwheel/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/cli/closed_pipe.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/core/process/wall_clock.h"

namespace cogwheel::cli {
namespace {

std::size_t columns(std::FILE* stream) {
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Of UTF-8, whose characters take one column each but for a few that no label has.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

std::string first_columns(const std::string& text, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t taken = 0; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++taken > count) break;
  return text.substr(0, end);
}

}  // namespace

std::string ProgressWords::text() const {
  std::string all;
  for (const std::string* part : {&step, &loss, &measured, &speed, &left})
    if (!part->empty()) all += (all.empty() ? "" : "  ") + *part;
  return all;
}

std::string progress_line(const std::string& label, double share, ProgressWords words, std::size_t columns) {
  constexpr std::size_t narrowest = 4, widest = 24;
  const auto taken = [&] { return columns_of(label) + columns_of(words.text()) + 2; };  // without the bar
  for (std::string* part : {&words.speed, &words.loss, &words.measured})
    if (taken() + narrowest > columns) part->clear();
  const std::size_t width = std::clamp(columns - std::min(columns, taken()), narrowest, widest);
  const auto done = static_cast<std::size_t>(share * static_cast<double>(width));
  std::string bar;
  for (std::size_t cell = 0; cell < width; ++cell) bar += cell < done ? "█" : "░";
  // Of a label that takes the line, its beginning; in a window narrower than that nothing can be shown.
  const std::size_t rest = columns_of(words.text()) + width + 2;
  const std::string name = first_columns(label, columns - std::min(columns, rest));
  return first_columns(name + (name.empty() ? "" : " ") + bar + " " + words.text(), columns);
}

Progress::Progress(std::string label_of_measure, std::string counted, std::FILE* stream)
    : label_of_measure_(std::move(label_of_measure)),
      counted_(std::move(counted)),
      stream_(stream),
      on_terminal_(::isatty(::fileno(stream)) == 1) {}

ProgressWords Progress::describe(const runs::StepReport& report) const {
  ProgressWords words{.step = fmt::format("step {}/{}", report.step, report.steps),
                      .loss = fmt::format("{} {:.4f}", report.phase.empty() ? "loss" : report.phase, report.train_loss),
                      .measured = measured_,
                      .speed = fmt::format("{} {}/s", count_text(report.tokens_per_second), counted_),
                      .left = {}};
  if (report.step > first_step_ && report.step < report.steps) {
    const double spent = seconds_since(first_time_);
    words.left = fmt::format("{} left", duration_text(spent * static_cast<double>(report.steps - report.step) /
                                                      static_cast<double>(report.step - first_step_)));
  }
  return words;
}

// Never throws: a job that nobody watches any more is asked to save and stop; one whose log cannot be written goes on.
void Progress::put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream_);
  if ((std::fflush(stream_) != 0 || std::ferror(stream_) != 0) && reader_left(::fileno(stream_))) ask_to_stop();
}

void Progress::show(const std::string& label, const runs::StepReport& report) {
  const bool fresh = label != label_ || report.step < first_step_;
  if (fresh) {
    label_ = label;
    first_step_ = report.step;
    first_time_ = WallClock::now();
    measured_.clear();
  }
  if (!report.measured.empty()) measured_ = fmt::format("{} {:.4f}", label_of_measure_, report.measured.front().value);
  if (!is_due(fresh || !report.measured.empty())) return;
  draw(label, report.steps > 0 ? static_cast<double>(report.step) / static_cast<double>(report.steps) : 0,
       describe(report));
}

void Progress::show(const std::string& label, double share, ProgressWords words) {
  const bool fresh = label != label_;
  if (fresh) {
    label_ = label;
    first_time_ = WallClock::now();
    first_share_ = share;
  }
  if (!is_due(fresh)) return;
  if (share > first_share_ && share < 1) {
    const double spent = seconds_since(first_time_);
    words.left = fmt::format("{} left", duration_text(spent * (1 - share) / (share - first_share_)));
  }
  draw(label, share, words);
}

bool Progress::is_due(bool always) {
  const auto pause = on_terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
  const auto now = WallClock::now();
  if (!always && now - last_time_ < pause) return false;
  last_time_ = now;
  return true;
}

void Progress::draw(const std::string& label, double share, const ProgressWords& words) {
  if (!on_terminal_) {
    put(fmt::format("{}: {}\n", label, words.text()));
    return;
  }
  // A terminal breaks a line that fills its last column.
  put("\r\033[K" + progress_line(label, share, words, columns(stream_) - 1));
  drawn_ = true;
}

void Progress::line(const std::string& text) {
  clear();
  put(text + "\n");
}

void Progress::clear() {
  if (!drawn_) return;
  put("\r\033[K");
  drawn_ = false;
}

}  // namespace cogwheel::cli
