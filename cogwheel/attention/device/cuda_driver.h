// NVIDIA's driver (libcuda.so.1), opened when it is first needed: a build needs no CUDA, and a machine no driver.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace cogwheel::device {

struct CompiledKernel;

class CudaDriver {
 public:
  // Throws Error where there is none, or one without what is needed.
  static const CudaDriver& of_machine();
  // Whether there is one, without starting it: a process that has may not fork.
  static bool is_there();

  // Makes the device's primary context, which PyTorch's memory is of, that of this thread, where it has none yet.
  void use(int device) const;
  std::string name(int device) const;           // as its maker calls it
  int capability(int device) const;             // 90 of 9.0
  std::int64_t shared_bytes(int device) const;  // at most, of a program

  // Below, on the device that the thread uses. A function of the driver that kernels are launched by, for as long as
  // the process lives. Throws Error where the driver refuses the image.
  void* load(const CompiledKernel& kernel) const;
  // `arguments`: where each of them lies. `stream`: the driver's, null for its default one.
  void launch(void* function, const CompiledKernel& kernel, std::int64_t programs, std::span<void*> arguments,
              void* stream) const;

 private:
  CudaDriver();
  void check(int result, const std::string& doing) const;

  struct Functions;
  const Functions* functions_;
};

}  // namespace cogwheel::device
