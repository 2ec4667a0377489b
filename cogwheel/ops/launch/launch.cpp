#include "cogwheel/ops/launch/launch.h"

#include <torch/library.h>

#include <algorithm>
#include <bit>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/launch/device_launch.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::ops {
namespace {

using Interpret = void(c10::string_view mechanism, c10::string_view kernel, std::int64_t programs,
                       c10::List<std::string> names, at::TensorList tensors, at::IntArrayRef integers,
                       at::ArrayRef<double> numbers, at::IntArrayRef constants);

// What the package cogwheel implements.
const c10::TypedOperatorHandle<Interpret>& interpreter() {
  static const auto found = find_operator<Interpret>("cogwheel::interpret");
  if (!found.hasKernelForDispatchKey(c10::DispatchKey::CPU))
    throw UsageError(expected_got("COGWHEEL_ENGINE=interpreted",
                                  "attention called from Python, by the package cogwheel", "this program"));
  return found;
}

void interpret(const Launch& launch) {
  c10::List<std::string> names;
  const auto values = [&]<class T>(const Named<T>& named) {
    std::vector<T> separate;
    for (const auto& [name, value] : named) {
      names.push_back(name);
      separate.push_back(value);
    }
    return separate;
  };
  const auto tensors = values(launch.tensors);
  const auto integers = values(launch.integers);
  const auto numbers = values(launch.numbers);
  const auto constants = values(launch.constants);
  interpreter().call(launch.mechanism, launch.kernel, launch.programs, names, tensors, integers, numbers, constants);
}

class Interpreter : public Launcher {
 public:
  DeviceTarget target() const override { return {}; }
  void run(const std::vector<Launch>& launches) const override {
    for (const Launch& each : launches) interpret(each);
  }
};

thread_local const Launcher* of_cpu_tensors = nullptr;

constexpr std::int64_t kilobyte = 1024;

}  // namespace

std::int64_t shared_bytes_of(std::string_view target) {
  if (target == "gfx942") return 64 * kilobyte;
  if (target == "sm_86" || target == "sm_89" || target == "sm_120") return 99 * kilobyte;
  if (target == "sm_80" || target == "sm_87") return 163 * kilobyte;
  if (target == "sm_90" || target == "sm_100" || target == "sm_103") return 227 * kilobyte;
  throw UsageError(expected_got("target", "sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_120 or gfx942",
                                std::string(target)));
}

DeviceTarget DeviceTarget::named(std::string_view name) {
  constexpr std::string_view nvidia = "sm_";
  DeviceTarget target{.shared_bytes = shared_bytes_of(name)};
  if (name.starts_with(nvidia))
    target.capability = std::stoi(std::string(name.substr(nvidia.size())));
  else
    target.amd_architecture = name;
  return target;
}

std::int64_t padded_width(std::int64_t width) {
  constexpr std::uint64_t narrowest = 16;
  return static_cast<std::int64_t>(std::max(narrowest, std::bit_ceil(static_cast<std::uint64_t>(width))));
}

void launch_cpu_tensors_by(const Launcher* launcher) { of_cpu_tensors = launcher; }

bool cpu_tensors_are_launched() { return of_cpu_tensors != nullptr; }

const Launcher& launcher_of(const at::Tensor& tensor) {
  static const Interpreter interpreter;
  if (!tensor.is_cpu()) return launcher_of_device(tensor.device());
  return of_cpu_tensors != nullptr ? *of_cpu_tensors : interpreter;
}

void Launch::add_heads(const std::string& name, const at::Tensor& value) {
  add(name + ".data", value);
  add(name + ".batch", value.stride(0));
  add(name + ".head", value.stride(1));
  add(name + ".row", value.stride(2));
}

void Launch::add_pairs(const std::string& name, const at::Tensor& value, at::IntArrayRef size) {
  const at::Tensor whole = value.expand(size);
  add_heads(name, whole);
  add(name + ".key", whole.stride(3));
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  // It writes to tensors that the kernel writes to; called below autograd alone.
  library.def(
      "interpret(str mechanism, str kernel, int programs, str[] names, Tensor[] tensors, int[] integers, float[] "
      "numbers, int[] constants) -> ()");
}

}  // namespace cogwheel::ops
