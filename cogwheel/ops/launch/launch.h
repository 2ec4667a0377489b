// Kernels of python/cogwheel/device_kernels to run, as data: arguments by the names of parameters, a field after a dot.
// What is not named is None there, for which a kernel is compiled without.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cogwheel::ops {

template <class T>
using Named = std::vector<std::pair<std::string, T>>;

struct Launch {
  std::string mechanism, kernel;  // a row map's, or empty for kernels without one
  std::int64_t programs = 0;
  std::int64_t warps = 4, stages = 1;  // how a compiler lays out the work
  Named<at::Tensor> tensors = {};
  Named<std::int64_t> integers = {};
  Named<double> numbers = {};
  Named<std::int64_t> constants = {};  // which it is compiled for

  void add(std::string name, const at::Tensor& value) { tensors.emplace_back(std::move(name), value); }
  void add(std::string name, std::int64_t value) { integers.emplace_back(std::move(name), value); }
  void add(std::string name, double value) { numbers.emplace_back(std::move(name), value); }
  void add_constant(std::string name, std::int64_t value) { constants.emplace_back(std::move(name), value); }
  // Tuples `Heads` of a tensor [B, H, N, width] with contiguous width, and `Pairs` of one that is broadcast to `size`.
  void add_heads(const std::string& name, const at::Tensor& value);
  void add_pairs(const std::string& name, const at::Tensor& value, at::IntArrayRef size);
};

// A device that kernels are compiled for; the interpreter, where nothing is said.
struct DeviceTarget {
  int device = 0, capability = 0;     // 90 of NVIDIA's 9.0
  std::int64_t shared_bytes = 0;      // that a program may have
  std::string amd_architecture = {};  // gfx942, for which kernels are compiled and never launched

  // Of one that need not be there: sm_90, gfx942. Throws UsageError for one that nobody looked up.
  static DeviceTarget named(std::string_view name);
  bool is_interpreter() const { return capability == 0 && amd_architecture.empty(); }
  std::string name() const { return capability > 0 ? "sm_" + std::to_string(capability) : amd_architecture; }
  // Why kernels are not compiled for it, for people; empty if they are.
  std::string lacks() const;
};

// What a program may have of shared memory (CUDA C++ Programming Guide, technical specifications; AMD's LDS). Throws
// UsageError for a target that nobody looked up.
std::int64_t shared_bytes_of(std::string_view target);

// A width as a power of two, of at least 16, which products of tensor cores take.
std::int64_t padded_width(std::int64_t width);

// How many blocks of that size hold so many.
constexpr std::int64_t blocks(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// What runs launches.
class Launcher {
 public:
  virtual ~Launcher() = default;
  // For which sizes of blocks are chosen.
  virtual DeviceTarget target() const = 0;
  // One after another, in this order.
  virtual void run(const std::vector<Launch>& launches) const = 0;
};

// On the CPU Triton's interpreter, through the package cogwheel; else the driver of the tensor's device.
const Launcher& launcher_of(const at::Tensor& tensor);

// What takes the launches of this thread's tensors on the CPU, in place of the interpreter, until null is given.
void launch_cpu_tensors_by(const Launcher* launcher);
bool cpu_tensors_are_launched();

}  // namespace cogwheel::ops
