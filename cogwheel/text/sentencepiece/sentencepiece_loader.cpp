#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/text/sentencepiece/sentencepiece_module.h"

namespace cogwheel::text {
namespace {

// That of an installed package, whose executable lies in bin/ beside lib/; else that of the build folder.
std::filesystem::path module_path() {
  std::error_code problem;
  const std::filesystem::path built = COGWHEEL_SENTENCEPIECE_MODULE;
  const auto packaged =
      std::filesystem::read_symlink("/proc/self/exe", problem).parent_path().parent_path() / "lib" / built.filename();
  return std::filesystem::exists(packaged, problem) ? packaged : built;
}

const SentencePieceFunctions* load() {
  const std::string path = module_path().string();
  // Never closed: what it holds lives as long as the program.
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  const void* functions = module == nullptr ? nullptr : ::dlsym(module, sentencepiece_functions_name);
  if (functions == nullptr) {
    const char* problem = ::dlerror();
    throw Error(expected_got("SentencePiece", "a module that loads", problem == nullptr ? path : problem));
  }
  return static_cast<const SentencePieceFunctions*>(functions);
}

}  // namespace

const SentencePieceFunctions& sentencepiece() {
  static const SentencePieceFunctions* functions = load();
  return *functions;
}

}  // namespace cogwheel::text
