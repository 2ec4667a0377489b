#include "cogwheel/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/cli/closed_pipe.h"
#include "cogwheel/cli/interrupt.h"

namespace cogwheel {
namespace {

std::size_t columns(std::FILE* stream) {
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string label_of_measure, std::string counted, std::FILE* stream)
    : label_of_measure_(std::move(label_of_measure)),
      counted_(std::move(counted)),
      stream_(stream),
      on_terminal_(::isatty(::fileno(stream)) == 1) {}

std::string Progress::describe(const StepReport& report) const {
  std::string text = fmt::format("step {}/{}  loss {:.4f}", report.step, report.steps, report.train_loss) + measured_;
  text += fmt::format("  {} {}/s", count_text(report.tokens_per_second), counted_);
  if (report.step > first_step_ && report.step < report.steps) {
    const double spent = std::chrono::duration<double>(Clock::now() - first_time_).count();
    text += fmt::format("  {} left", duration_text(spent * static_cast<double>(report.steps - report.step) /
                                                   static_cast<double>(report.step - first_step_)));
  }
  return text;
}

// Never throws: a job that nobody watches any more is asked to save and stop; one whose log cannot be written goes on.
void Progress::put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream_);
  if ((std::fflush(stream_) != 0 || std::ferror(stream_) != 0) && reader_left(::fileno(stream_))) ask_to_stop();
}

void Progress::show(const std::string& label, const StepReport& report) {
  const auto now = Clock::now();
  const bool fresh = label != label_ || report.step < first_step_;
  if (fresh) {
    label_ = label;
    first_step_ = report.step;
    first_time_ = now;
    measured_.clear();
  }
  if (!report.measured.empty())
    measured_ = fmt::format("  {} {:.4f}", label_of_measure_, report.measured.front().value);
  const auto pause = on_terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
  if (!fresh && report.measured.empty() && now - last_time_ < pause) return;
  last_time_ = now;

  if (!on_terminal_) {
    put(fmt::format("{}: {}\n", label, describe(report)));
    return;
  }
  const std::string words = describe(report);
  const auto room = static_cast<std::int64_t>(columns(stream_)) - 1;
  // The bar shrinks to make room for the words.
  const auto taken = static_cast<std::int64_t>(label.size() + words.size()) + 2;
  const std::int64_t width = std::clamp<std::int64_t>(room - taken, 4, 24);
  const std::int64_t done = report.steps > 0 ? width * report.step / report.steps : 0;
  std::string bar;
  for (std::int64_t cell = 0; cell < width; ++cell) bar += cell < done ? "█" : "░";
  // Each cell of the bar takes three bytes and one column.
  std::string text = fmt::format("{} {} {}", label, bar, words);
  const auto max_bytes = static_cast<std::size_t>(room + 2 * width);
  if (text.size() > max_bytes) text.resize(std::max(max_bytes, label.size() + 1 + static_cast<std::size_t>(3 * width)));
  put("\r\033[K" + text);
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

}  // namespace cogwheel
