#include "cogwheel/attention/device/compiled_kernel.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cogwheel/core/cache/file_cache.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/process.h"

namespace cogwheel::device {
namespace fs = std::filesystem;
namespace {

constexpr FileCache cache{"device_kernels", ".kernel"};

// The engine that this process runs attention by is not that of the one that compiles.
const std::vector<std::string> compiling{"COGWHEEL_ENGINE=", "TRITON_INTERPRET=0"};

std::string word_of(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return line.substr(name.size() + 1);
  return "nothing";
}

// The package's folder alone: importing all of it would take longer than many a kernel.
constexpr std::string_view compile_code =
    "import importlib.util, types\n"
    "package = types.ModuleType('cogwheel')\n"
    "package.__path__ = importlib.util.find_spec('cogwheel').submodule_search_locations\n"
    "sys.modules['cogwheel'] = package\n"
    "from cogwheel.device_kernels.make import main\n"
    "main(sys.argv[1], sys.argv[2])\n";

void make(const KernelDescription& description, std::string_view row_map, const fs::path& folder,
          const fs::path& target) {
  write_file(folder / "description", description.text());
  write_file(folder / "row_map.py", row_map);
  std::vector<std::string> command = python_running(compile_code);
  command.push_back(folder.string());
  command.push_back(target.string());
  const Finished done = run_program(command, {.environment = compiling});
  if (done.status != 0)
    throw Error("kernel " + word_of(description.text(), "kernel") + " for " + word_of(description.text(), "target") +
                ": expected Triton to compile it, got " + last_line(done.errors));
}

// make.py writes the form: words by line, then the image.
CompiledKernel read(const std::string& contents, const fs::path& path) {
  CompiledKernel kernel;
  std::istringstream in(contents);
  std::string word, line;
  std::size_t image_bytes = 0;
  while (in >> word && word != "image") {
    if (word == "name") in >> kernel.name;
    if (word == "warps") in >> kernel.warps;
    if (word == "shared_bytes") in >> kernel.shared_bytes;
    if (word == "parameters") {
      std::getline(in, line);
      std::istringstream names(line);
      for (std::string name; names >> name;) kernel.parameters.push_back(name);
    }
  }
  in >> image_bytes;
  in.get();
  const auto at = static_cast<std::size_t>(in.tellg());
  if (!in || contents.size() - at < image_bytes) throw Error(expected_got(path.string(), "a kernel", "another file"));
  kernel.image = contents.substr(at, image_bytes);
  return kernel;
}

}  // namespace

KernelDescription::KernelDescription(std::string_view kernel) {
  set("kernel", kernel);
  set("sources", COGWHEEL_DEVICE_KERNELS);
}

void KernelDescription::set(std::string_view name, std::string_view value) {
  text_.append(name).append(" ").append(value).append("\n");
}

void KernelDescription::add_argument(std::string_view name, std::string_view type, bool aligned) {
  text_.append(aligned ? "aligned " : "argument ").append(name).append(" ").append(type).append("\n");
}

void KernelDescription::add_constant(std::string_view name, std::int64_t value) {
  text_.append("constant ").append(name).append(" ").append(std::to_string(value)).append("\n");
}

CompiledKernel compiled_kernel(const KernelDescription& description, std::string_view row_map) {
  const std::string key = sha256(description.text() + std::string(row_map));
  const fs::path path = cached_file(
      cache, key, [&](const fs::path& folder, const fs::path& target) { make(description, row_map, folder, target); });
  return read(contents_of_cached(path), path);
}

std::string_view compiled_kernels_lack() {
  static const bool can = [] {
    if (const char* cached = std::getenv("COGWHEEL_CACHED_KERNELS"); cached != nullptr && *cached != '\0') return true;
    const auto command = python_running(
        "from importlib.util import find_spec\n"
        "from importlib.metadata import version\n"
        "found = tuple(int(part) for part in version('triton').split('.')[:2])\n"
        "sys.exit(0 if found >= (3, 7) and find_spec('cogwheel') else 1)\n");
    try {
      return run_program(command, {.environment = compiling}).status == 0;
    } catch (const Error&) {  // no Python
      return false;
    }
  }();
  return can ? "" : "Python with the packages cogwheel and triton (3.7 or newer)";
}

}  // namespace cogwheel::device
