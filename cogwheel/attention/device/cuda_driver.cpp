#include "cogwheel/attention/device/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <limits>

#include "cogwheel/attention/device/compiled_kernel.h"
#include "cogwheel/core/error.h"

namespace cogwheel::device {
namespace {

// Of the driver's interface (cuda.h), whose numbers never change.
constexpr int attribute_major = 75, attribute_minor = 76, attribute_shared_bytes = 97;
constexpr int function_shared_bytes = 8;
constexpr const char* library_name = "libcuda.so.1";
constexpr std::int64_t shared_bytes_unasked = 48 << 10;  // more has to be asked for
constexpr unsigned threads_of_warp = 32;

}  // namespace

struct CudaDriver::Functions {
  int (*init)(unsigned flags);
  int (*context_device)(int* device);
  int (*primary_context)(void** context, int device);
  int (*set_context)(void* context);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*device_name)(char* name, int bytes, int device);
  int (*load_module)(void** module, const void* image);
  int (*module_function)(void** function, void* module, const char* name);
  int (*set_function_attribute)(void* function, int attribute, int value);
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra);
  int (*error_text)(int error, const char** text);
};

CudaDriver::CudaDriver() {
  const std::string name = library_name;
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(expected_got("kernels of a GPU", std::string(name) + " (NVIDIA's driver)", "none"));
  static Functions functions;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr) throw Error(expected_got(name, std::string("a driver with ") + symbol, "one without"));
  };
  find(functions.init, "cuInit");
  find(functions.context_device, "cuCtxGetDevice");
  find(functions.primary_context, "cuDevicePrimaryCtxRetain");
  find(functions.set_context, "cuCtxSetCurrent");
  find(functions.device_attribute, "cuDeviceGetAttribute");
  find(functions.device_name, "cuDeviceGetName");
  find(functions.load_module, "cuModuleLoadData");
  find(functions.module_function, "cuModuleGetFunction");
  find(functions.set_function_attribute, "cuFuncSetAttribute");
  find(functions.launch, "cuLaunchKernel");
  find(functions.error_text, "cuGetErrorString");
  functions_ = &functions;
  check(functions.init(0), "start");
}

const CudaDriver& CudaDriver::of_machine() {
  static const CudaDriver driver;
  return driver;
}

void CudaDriver::check(int result, const std::string& doing) const {
  if (result == 0) return;
  const char* text = nullptr;
  if (functions_->error_text(result, &text) != 0 || text == nullptr) text = "an unknown error";
  throw Error("NVIDIA's driver: expected to " + doing + ", got " + text + " (" + std::to_string(result) + ")");
}

bool CudaDriver::is_there() {
  void* const library = ::dlopen(library_name, RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

void CudaDriver::use(int device) const {
  int used = 0;
  if (functions_->context_device(&used) == 0 && used == device) return;
  void* context = nullptr;
  check(functions_->primary_context(&context, device), "have a context of device " + std::to_string(device));
  check(functions_->set_context(context), "use device " + std::to_string(device));
}

std::string CudaDriver::name(int device) const {
  std::array<char, 256> text{};
  check(functions_->device_name(text.data(), static_cast<int>(text.size()), device), "know the device's name");
  return text.data();
}

int CudaDriver::capability(int device) const {
  int major = 0, minor = 0;
  check(functions_->device_attribute(&major, attribute_major, device), "know the device's capability");
  check(functions_->device_attribute(&minor, attribute_minor, device), "know the device's capability");
  return 10 * major + minor;
}

std::int64_t CudaDriver::shared_bytes(int device) const {
  int bytes = 0;
  check(functions_->device_attribute(&bytes, attribute_shared_bytes, device), "know the device's shared memory");
  return bytes;
}

void* CudaDriver::load(const CompiledKernel& kernel) const {
  void *module = nullptr, *function = nullptr;
  check(functions_->load_module(&module, kernel.image.data()), "load " + kernel.name);
  check(functions_->module_function(&function, module, kernel.name.c_str()), "find " + kernel.name);
  if (kernel.shared_bytes > shared_bytes_unasked)
    check(functions_->set_function_attribute(function, function_shared_bytes, static_cast<int>(kernel.shared_bytes)),
          "give " + kernel.name + " " + std::to_string(kernel.shared_bytes) + " bytes of shared memory");
  return function;
}

void CudaDriver::launch(void* function, const CompiledKernel& kernel, std::int64_t programs, std::span<void*> arguments,
                        void* stream) const {
  if (programs > std::numeric_limits<std::int32_t>::max())
    throw Error(expected_got(kernel.name, "at most 2^31 - 1 programs", std::to_string(programs)));
  check(functions_->launch(function, static_cast<unsigned>(programs), 1, 1,
                           static_cast<unsigned>(kernel.warps) * threads_of_warp, 1, 1,
                           static_cast<unsigned>(kernel.shared_bytes), stream, arguments.data(), nullptr),
        "launch " + kernel.name);
}

}  // namespace cogwheel::device
