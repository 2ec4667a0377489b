#include "cogwheel/runs/training/step_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::runs {
namespace {

[[noreturn]] void refuse_lines(const std::filesystem::path& path) {
  throw WriteError(expected_got(path.string(), "a file that can be written", std::strerror(errno)));
}

std::string lines_until(const std::filesystem::path& path, std::int64_t step) {
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) return "";
  std::string kept;
  std::istringstream lines(read_file(path));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    ++number;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
      throw Error(expected_got(path.string(), "a report on line " + std::to_string(number), line));
    if (json["step"].get<std::int64_t>() <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

StepLines::StepLines(const std::filesystem::path& path, std::int64_t step) : path_(path) {
  write_file(path, lines_until(path, step));
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) refuse_lines(path_);
}

StepLines::~StepLines() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void StepLines::write(std::string_view given) {
  const std::string line = std::string(given) + "\n";
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  for (std::string_view left = line; !left.empty();) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int problem = errno;
      if (before >= 0) static_cast<void>(::ftruncate(descriptor_, before));
      errno = problem;
      refuse_lines(path_);
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

void StepLines::sync() {
  if (::fsync(descriptor_) != 0) refuse_lines(path_);
}

}  // namespace cogwheel::runs
