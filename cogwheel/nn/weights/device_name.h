// Devices by the names that PyTorch has for them.
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <string_view>

namespace cogwheel::nn {

// cpu, cuda, mps, xpu or what an extension of PyTorch has registered, with a number as in cuda:1 or without. Throws
// UsageError, which calls it `what`, for any other word.
void expect_device_name(std::string_view what, const std::string& name);

// What the maker of a device calls it, as "NVIDIA H100 80GB HBM3"; empty where nobody says.
std::string product_name(const std::string& name);

// And that this machine has it.
at::Device device_named(std::string_view what, const std::string& name);

}  // namespace cogwheel::nn
