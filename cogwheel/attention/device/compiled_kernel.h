// A kernel of python/cogwheel/device_kernels, compiled for a device and for arguments of some types: made by Python
// once, then read from the cache (core/cache/file_cache.h).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::device {

// What a kernel is compiled for: the text is what Python reads, and most of what names the file in the cache.
class KernelDescription {
 public:
  explicit KernelDescription(std::string_view kernel);

  void set(std::string_view name, std::string_view value);  // target, warps, stages, shared_bytes
  // An argument in Triton's word for its type ("*bf16", "i32"), and whether it is a multiple of 16.
  void add_argument(std::string_view name, std::string_view type, bool aligned);
  void add_constant(std::string_view name, std::int64_t value);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct CompiledKernel {
  std::string name;
  std::int64_t warps = 0, shared_bytes = 0;
  std::vector<std::string> parameters;  // names of the arguments that it takes, in order
  std::string image;
};

// Reads it from the cache, for which Python compiles it if need be. `row_map`: the text of the module that the kernel
// is made around. Throws Error, which names the kernel, where Python or its compiler fails.
CompiledKernel compiled_kernel(const KernelDescription& description, std::string_view row_map);

// What that lacks on this machine, for people: Python, its packages. Empty if nothing, or if COGWHEEL_CACHED_KERNELS
// says that the cache has what is needed; asked once.
std::string_view compiled_kernels_lack();

}  // namespace cogwheel::device
