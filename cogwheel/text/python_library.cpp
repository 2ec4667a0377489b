#include <algorithm>
#include <array>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/process.h"
#include "cogwheel/text/corpus.h"
#include "cogwheel/text/corpus_builder.h"

namespace cogwheel::text {
namespace {
namespace fs = std::filesystem;

// The version of an interpreter and the folder of its library, a line each; empty where it does not answer.
std::string answer_of(const std::string& interpreter) {
  try {
    const Finished finished = run_program({interpreter, "-I", "-c",
                                           "import sys, sysconfig; print('%d.%d' % sys.version_info[:2]); "
                                           "print(sysconfig.get_paths()['stdlib'])"});
    return finished.status == 0 ? finished.output : "";
  } catch (const Error&) {  // it does not start
    return "";
  }
}

}  // namespace

Corpus load_python_standard_library(std::int64_t byte_limit) {
  const std::string interpreter = environment_python();
  const std::string answer = answer_of(interpreter);
  const std::size_t line = answer.find('\n');
  if (line == std::string::npos)
    throw Error(
        expected_got("text", "Python's standard library, since no --text was given", "no answer from " + interpreter));
  const fs::path folder = answer.substr(line + 1, answer.find('\n', line + 1) - line - 1);

  // Tests are not part of the library; encodings and pydoc_data are over 2 MB of generated tables.
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

}  // namespace cogwheel::text
