// A file of JSON lines, each of a step of a run and appended when the step is done.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace cogwheel::runs {

class StepLines {
 public:
  // Continues after the lines up to `step`; later ones, from before a resume, are dropped, as is an incomplete last
  // line. Throws Error where another line is no JSON with a step, or the file cannot be read or written.
  StepLines(const std::filesystem::path& path, std::int64_t step);
  StepLines(const StepLines&) = delete;
  StepLines& operator=(const StepLines&) = delete;
  ~StepLines();

  // A line without its end. What cannot be written whole is taken back before Error is thrown.
  void write(std::string_view line);
  // Syncs to disk: a later checkpoint must not survive a crash that loses the lines before it.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace cogwheel::runs
