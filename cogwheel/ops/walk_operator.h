// What the operators of walks over tokens share (token_walk.cpp, delta_walk.cpp).
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <tuple>

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

// `walk` is a TokenWalk or a DeltaWalk.
template <class Walk>
c10::SymInt sequences_of(const Walk& walk) {
  return walk.cu_seqlens ? walk.cu_seqlens->sym_size(0) - 1 : walk.query.sym_size(0);
}
template <class Walk>
std::array<c10::SymInt, 4> sizes_of_states(const Walk& walk) {
  return {sequences_of(walk), walk.query.sym_size(1), walk.query.sym_size(3), walk.value.sym_size(3)};
}

// Memory for the output and the last states.
template <class Walk>
std::tuple<at::Tensor, at::Tensor> empty_walked(const Walk& walk) {
  const at::TensorOptions options = walk.value.options();
  return {at::empty_symint(walk.value.sym_sizes(), options), at::empty_symint(sizes_of_states(walk), options)};
}

// Memory for the gradient of one of its tensors; empty where that is missing.
template <class Walk>
at::Tensor empty_gradient(const Walk& walk, const OptionalTensor& tensor) {
  const at::TensorOptions options = walk.query.options();
  return tensor ? at::empty_symint(tensor->sym_sizes(), options) : at::empty({0}, options);
}

}  // namespace cogwheel
