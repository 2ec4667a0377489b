#include "cogwheel/nn/weights/device_name.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceType.h>

#include <algorithm>
#include <vector>

#include "cogwheel/attention/device/cuda_driver.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::nn {

void expect_device_name(std::string_view what, const std::string& name) {
  const bool has_index = name.find(':') != std::string::npos;
  const std::string kind = name.substr(0, name.find(':'));
  const std::string index = has_index ? name.substr(kind.size() + 1) : "0";
  const bool is_number =
      !index.empty() && index.size() <= 2 && index.find_first_not_of("0123456789") == std::string::npos;
  std::vector<std::string> devices{"cpu", "cuda", "mps", "xpu"};
  if (c10::is_privateuse1_backend_registered()) devices.push_back(c10::get_privateuse1_backend());
  if (std::find(devices.begin(), devices.end(), kind) == devices.end() || !is_number)
    throw UsageError(
        expected_got(what, expected_names(kind, devices) + ", with a number as in cuda:1 or without", name));
}

std::string product_name(const std::string& name) {
  expect_device_name("device", name);
  const at::Device device(name);
  if (!device.is_cuda()) return {};
  try {
    return device::CudaDriver::of_machine().name(std::max<int>(device.index(), 0));
  } catch (const Error&) {  // no driver of NVIDIA
    return {};
  }
}

at::Device device_named(std::string_view what, const std::string& name) {
  expect_device_name(what, name);
  const at::Device device(name);
  if (device.is_cpu()) return device;
  try {
    at::empty({1}, device);
  } catch (const c10::Error&) {
    throw UsageError(expected_got(what, "a device that this machine and its PyTorch have, such as cpu", name));
  }
  return device;
}

}  // namespace cogwheel::nn
