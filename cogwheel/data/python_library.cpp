#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "cogwheel/core/environment_python.h"
#include "cogwheel/core/error.h"
#include "cogwheel/data/corpus.h"
#include "cogwheel/data/corpus_builder.h"

namespace cogwheel {
namespace {
namespace fs = std::filesystem;

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char character : word) text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return text + "'";
}

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), count);
  return ::pclose(pipe) == 0 ? output : "";
}

}  // namespace

Corpus load_python_standard_library(std::int64_t byte_limit) {
  const std::string interpreter = environment_python();
  const std::string answer = output_of(quoted(interpreter) +
                                       " -I -c 'import sys, sysconfig; print(\"%d.%d\" % sys.version_info[:2]); "
                                       "print(sysconfig.get_paths()[\"stdlib\"])'");
  const std::size_t line = answer.find('\n');
  if (line == std::string::npos)
    throw Error(
        expected_got("text", "Python's standard library, since no --text was given", "no answer from " + interpreter));
  const fs::path folder = answer.substr(line + 1, answer.find('\n', line + 1) - line - 1);

  // Tests are not the library; encodings and pydoc_data are tables that programs wrote, over 2 MB of them.
  constexpr std::array left_out = {"site-packages", "dist-packages", "__pycache__", "test",
                                   "tests",         "idle_test",     "encodings",   "pydoc_data"};
  const auto enter = [&](const fs::path& path) {
    return std::find(left_out.begin(), left_out.end(), path.filename().string()) == left_out.end();
  };
  const auto take = [](const fs::path& path) { return path.extension() == ".py"; };
  CorpusBuilder builder("Python " + answer.substr(0, line) + " standard library", byte_limit);
  for (const auto& file : files_below(folder, enter, take))
    if (!builder.add(file)) break;
  return std::move(builder).finish();
}

}  // namespace cogwheel
