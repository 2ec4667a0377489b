// One token of an LSTM or a GRU: what is left beside the two products, as one operator.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

#include "cogwheel/attention/kernels/gated_sequence/gated_sequence.h"
#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// "lstm" or "gru"; anything else is refused in the name of an operator.
GatedCell gated_cell_of(const char* operation, std::string_view name);

struct StateOfCell {
  at::Tensor hidden, memory;  // memory undefined of a GRU
};

// The state after a token, in ATen's operators.
StateOfCell composed_cell(GatedCell cell, const at::Tensor& x, const at::Tensor& products, const StateOfCell& state);

// As kernels take a tensor that may be missing, or empty.
template <class T>
const T* numbers_of(const OptionalTensor& tensor) {
  return tensor ? tensor->const_data_ptr<T>() : nullptr;
}
template <class T>
T* memory_of(const at::Tensor& tensor) {
  return tensor.numel() > 0 ? tensor.mutable_data_ptr<T>() : nullptr;
}

// x = W input + b and products = U h + b, [B, gates · H] each; hidden and memory [B, H], the state before, 0 without. →
// the state after, [B, H] each, and, without derivatives, what backward reads. cell, gates and their order as of
// gated_sequence. Differentiable any number of times, from the second on by a composition.
std::tuple<at::Tensor, at::Tensor, at::Tensor> gated_cell(const at::Tensor& x, const at::Tensor& products,
                                                          const OptionalTensor& hidden, const OptionalTensor& memory,
                                                          std::string_view cell);

}  // namespace cogwheel::ops
