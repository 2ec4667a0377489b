#include "cogwheel/ops/launch/device_launch.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cogwheel/attention/authoring/triton_text.h"
#include "cogwheel/attention/device/cuda_driver.h"
#include "cogwheel/core/error.h"

namespace cogwheel::ops {
namespace {

constexpr int oldest_capability = 80;  // tensor cores of bfloat16, copies into shared memory beside the work
constexpr std::int64_t alignment = 16;

// As a driver takes it: it reads as many bytes as the parameter has.
union Argument {
  const void* pointer;
  std::int64_t wide;
  std::int32_t narrow;
  float number;
};

bool is_narrow(std::int64_t value) {
  return value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
}

const char* pointer_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "*fp32";
    case at::kDouble:
      return "*fp64";
    case at::kBFloat16:
      return "*bf16";
    case at::kHalf:
      return "*fp16";
    case at::kInt:
      return "*i32";
    case at::kLong:
      return "*i64";
    default:
      throw UsageError(expected_got("a kernel's argument", "numbers that kernels read", c10::toString(type)));
  }
}

// Strides, of which multiples of 16 let a kernel read several numbers at once.
bool is_stride(std::string_view name) {
  return name.ends_with(".batch") || name.ends_with(".head") || name.ends_with(".row");
}

// A kernel of this process: loaded on a device, with the places of its parameters among a launch's values.
struct Loaded {
  device::CompiledKernel kernel;
  void* function;
  std::vector<std::size_t> places;
};

// Of what `values_of` has, in its order.
std::vector<std::string_view> names_of(const Launch& launch) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : launch.tensors) names.push_back(name);
  for (const auto& [name, value] : launch.integers) names.push_back(name);
  for (const auto& [name, value] : launch.numbers) names.push_back(name);
  return names;
}

std::vector<std::size_t> places_of(const std::vector<std::string>& parameters, const Launch& launch) {
  const std::vector<std::string_view> names = names_of(launch);
  std::vector<std::size_t> places;
  for (const std::string& parameter : parameters) {
    const auto found = std::find(names.begin(), names.end(), parameter);
    if (found == names.end())
      throw Error(expected_got("kernel " + launch.kernel, "arguments that the launch names", parameter));
    places.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return places;
}

std::string row_map_of(const Launch& launch) {
  return launch.mechanism.empty() ? "" : authoring::triton_text(launch.mechanism);
}

using Compiling = std::unordered_map<std::string, std::future<device::CompiledKernel>>;

// By device, mechanism and description.
class LoadedKernels {
 public:
  // The first time it may take seconds, for which other threads do not wait.
  std::vector<const Loaded*> of(const std::vector<Launch>& launches, const DeviceTarget& target) {
    std::vector<std::string> keys;
    Compiling compiling;
    for (const Launch& each : launches) {
      const device::KernelDescription description = description_of(each, target);
      keys.push_back(each.mechanism + " on " + std::to_string(target.device) + "\n" + description.text());
      if (find(keys.back()) == nullptr) compile(compiling, keys.back(), each, description);
    }
    std::vector<const Loaded*> found;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      if (const auto made = compiling.find(keys[i]); made != compiling.end() && made->second.valid())
        add(keys[i], made->second.get(), launches[i]);
      found.push_back(find(keys[i]));
    }
    return found;
  }

  static void compile(Compiling& compiling, const std::string& key, const Launch& launch,
                      const device::KernelDescription& description) {
    if (compiling.contains(key)) return;
    compiling[key] = std::async(std::launch::async, [description, text = row_map_of(launch)] {
      return device::compiled_kernel(description, text);
    });
  }

 private:
  const Loaded* find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(key);
    return found == loaded_.end() ? nullptr : &found->second;
  }

  void add(const std::string& key, device::CompiledKernel&& kernel, const Launch& launch) {
    void* const function = device::CudaDriver::of_machine().load(kernel);
    std::vector<std::size_t> places = places_of(kernel.parameters, launch);
    Loaded loaded{std::move(kernel), function, std::move(places)};
    const std::lock_guard lock(mutex_);
    loaded_.emplace(key, std::move(loaded));  // unless another thread was faster
  }

  std::mutex mutex_;
  std::unordered_map<std::string, Loaded> loaded_;  // whose elements stay where they are
};

std::vector<Argument> values_of(const Launch& launch) {
  std::vector<Argument> values;
  for (const auto& [name, tensor] : launch.tensors) values.push_back({.pointer = tensor.const_data_ptr()});
  for (const auto& [name, integer] : launch.integers) {
    values.push_back({.wide = integer});
    if (is_narrow(integer)) values.back().narrow = static_cast<std::int32_t>(integer);
  }
  for (const auto& [name, number] : launch.numbers) values.push_back({.number = static_cast<float>(number)});
  return values;
}

void launch_on(const Loaded& loaded, const Launch& launch, void* stream) {
  std::vector<Argument> values = values_of(launch);
  // Pointers to scratch memory, which none of these kernels has, follow a kernel's arguments: two by Triton 3.9.
  constexpr std::size_t most_scratch = 8;
  Argument scratch{.pointer = nullptr};
  std::vector<void*> arguments;
  for (const std::size_t place : loaded.places) arguments.push_back(&values[place]);
  arguments.insert(arguments.end(), most_scratch, &scratch);
  device::CudaDriver::of_machine().launch(loaded.function, loaded.kernel, launch.programs, arguments, stream);
}

constexpr int most_devices = 64;

class DeviceLauncher : public Launcher {
 public:
  explicit DeviceLauncher(c10::DeviceIndex device) : device_(at::kCUDA, device) {}

  DeviceTarget target() const override {
    std::call_once(asked_, [this] { target_ = target_of(device_.index()); });
    return target_;
  }
  void run(const std::vector<Launch>& launches) const override {
    for (const Launch& launch : launches)
      for (const auto& [name, tensor] : launch.tensors)
        if (tensor.device() != device_)
          throw UsageError(
              expected_got(name, "a tensor on " + device_.str() + " (as query)", "one on " + tensor.device().str()));
    const DeviceTarget on = target();
    device::CudaDriver::of_machine().use(on.device);
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    run_on_device(launches, on, stream.native_handle());
  }

 private:
  at::Device device_;
  mutable std::once_flag asked_;
  mutable DeviceTarget target_;
};

}  // namespace

std::string DeviceTarget::lacks() const {
  if (capability >= oldest_capability) return {};
  return "devices older than capability " + std::to_string(oldest_capability / 10) + "." +
         std::to_string(oldest_capability % 10) + " (this one is of " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10) + ")";
}

DeviceTarget target_of(c10::DeviceIndex device) {
  const device::CudaDriver& driver = device::CudaDriver::of_machine();
  return {.device = device, .capability = driver.capability(device), .shared_bytes = driver.shared_bytes(device)};
}

device::KernelDescription description_of(const Launch& launch, const DeviceTarget& target) {
  device::KernelDescription description(launch.kernel);
  description.set("target", target.name());
  description.set("warps", std::to_string(launch.warps));
  description.set("stages", std::to_string(launch.stages));
  description.set("shared_bytes", std::to_string(target.shared_bytes));
  for (const auto& [name, tensor] : launch.tensors)
    description.add_argument(name, pointer_type(tensor.scalar_type()),
                             reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % alignment == 0);
  for (const auto& [name, integer] : launch.integers)
    description.add_argument(name, is_narrow(integer) ? "i32" : "i64", is_stride(name) && integer % alignment == 0);
  for (const auto& [name, number] : launch.numbers) description.add_argument(name, "fp32", false);
  for (const auto& [name, constant] : launch.constants) description.add_constant(name, constant);
  return description;
}

void compile_for(const std::vector<Launch>& launches, const DeviceTarget& target) {
  Compiling compiling;
  for (const Launch& each : launches) {
    const device::KernelDescription description = description_of(each, target);
    LoadedKernels::compile(compiling, description.text(), each, description);
  }
  for (auto& [key, made] : compiling) made.get();
}

void run_on_device(const std::vector<Launch>& launches, const DeviceTarget& target, void* stream) {
  static LoadedKernels kernels;
  const std::vector<const Loaded*> loaded = kernels.of(launches, target);
  for (std::size_t i = 0; i < launches.size(); ++i) launch_on(*loaded[i], launches[i], stream);
}

const Launcher& launcher_of_device(at::Device device) {
  static const std::deque<DeviceLauncher> every = [] {
    std::deque<DeviceLauncher> made;
    for (int index = 0; index < most_devices; ++index) made.emplace_back(static_cast<c10::DeviceIndex>(index));
    return made;
  }();
  return every.at(static_cast<std::size_t>(device.index()));
}

std::string_view device_lacks(c10::DeviceIndex device) {
  static std::array<std::string, most_devices> lacked;
  static std::array<std::once_flag, most_devices> asked;
  const auto at = static_cast<std::size_t>(device);
  std::call_once(asked.at(at), [&] {
    try {
      lacked[at] = target_of(device).lacks();
      if (lacked[at].empty()) lacked[at] = device::compiled_kernels_lack();
    } catch (const Error& error) {
      lacked[at] = error.what();
    }
  });
  return lacked[at];
}

}  // namespace cogwheel::ops
