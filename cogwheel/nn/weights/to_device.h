// Tensors of a batch on the device of a model.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::nn {

// To CUDA the host does not wait for a copy from pinned memory (runs/training/batch_prefetcher.h): what is called next
// on the same stream sees it.
inline at::Tensor to_device(const at::Tensor& tensor, at::Device device) {
  return tensor.to(at::TensorOptions().device(device), /*non_blocking=*/tensor.is_cpu() && device.is_cuda());
}

}  // namespace cogwheel::nn
