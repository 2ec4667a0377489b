// What the operators of walks over tokens share (token_walk.cpp, delta_walk.cpp).
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/kernels/heads_view.h"
#include "cogwheel/ops/bundle.h"

namespace cogwheel {

template <class T>
HeadsView<const T> view_to_read(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}
template <class T>
HeadsView<T> view_to_write(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// Memory for the gradient of a tensor, as contiguous as that of `query`; empty where there is no tensor.
inline at::Tensor empty_beside(const at::Tensor& query, const OptionalTensor& tensor) {
  return tensor ? at::empty_symint(tensor->sym_sizes(), query.options()) : at::empty({0}, query.options());
}

[[noreturn]] inline void refuse_derivative(const char* got) {
  const std::string message = expected_got("recurrent: derivatives", "first ones, by a backward pass", got);
  C10_THROW_ERROR(NotImplementedError, message);
}

}  // namespace cogwheel
