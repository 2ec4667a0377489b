#include "cogwheel/ops/support/engine.h"

#include <ATen/native/CPUFallback.h>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/support/engine_registration.h"

namespace cogwheel::ops {
namespace {

constexpr std::string_view variable = "COGWHEEL_ENGINE", composed = "composed", interpreted = "interpreted";

const std::string& wanted_engine() {
  static const std::string wanted = [] {
    const char* const value = std::getenv(std::string(variable).c_str());
    return std::string(value == nullptr ? "" : value);
  }();
  return wanted;
}

void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

}  // namespace

bool attention_is_composed() { return wanted_engine() == composed; }

bool interprets_kernels() { return wanted_engine() == interpreted; }

std::string engine_choice() { return std::string(variable) + "=" + wanted_engine(); }

void check_engine_choice() {
  static const bool known = wanted_engine().empty() || attention_is_composed() || interprets_kernels();
  if (!known)
    throw UsageError(expected_got(std::string(variable), "composed, interpreted or nothing", wanted_engine()));
}

void implement_on_host(torch::Library& library, const char* name) {
  library.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_host>());
}

void note_composed(at::DeviceType device, std::string_view lacked) {
  static std::array<std::atomic<bool>, static_cast<std::size_t>(at::COMPILE_TIME_MAX_DEVICE_TYPES)> noted{};
  if (noted[static_cast<std::size_t>(device)].exchange(true)) return;
  const std::string name = c10::DeviceTypeName(device, true);
  std::string why = "no kernels for it";
  if (attention_is_composed()) why = engine_choice();
  if (!lacked.empty()) why = "its kernels lack " + std::string(lacked);
  std::fputs(
      ("cogwheel: attention on " + name + ": composed of ATen's operators (" + why + "), slower than fused kernels\n")
          .c_str(),
      stderr);
}

}  // namespace cogwheel::ops
