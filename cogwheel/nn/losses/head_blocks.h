// A loss of what a head reads, whose logits are there in blocks of rows alone, with the gradients that it hands back.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cogwheel::nn {

// Throws Error where there are no rows, or targets that are not one for each, or (on the CPU) no numbers below
// `vocabulary`. `rows`: what x is called.
void expect_tokens(const std::string& what, const std::string& rows, const at::Tensor& x, const at::Tensor& targets,
                   std::int64_t vocabulary);

// The losses [m] of the rows of some logits [m, V] from row `first` of all; the logits become the gradient of the sum
// of the losses times `weight`, unless that is 0.
using BlockLoss = std::function<at::Tensor(const at::Tensor& logits, std::int64_t first, double weight)>;

// Has several threads compute numbers of rows, of as many at a time as one keeps in its cache: `some` [rows, count]
// those of a slice of them, in float32 or float64 as the logits; nothing where `count` is 0. On a device the whole at
// once.
using OfSlice = std::function<at::Tensor(std::int64_t begin, std::int64_t end)>;
at::Tensor numbers_in_slices(const at::Tensor& logits, std::int64_t count, const OfSlice& some);
// One number of each row, [rows].
at::Tensor losses_in_slices(const at::Tensor& logits, const OfSlice& some);

// The mean over the rows of x [n, width] of `loss` of x Wᵀ + b, of whose rows as many as take `logits_bytes` in float32
// are there at a time. Where a gradient is needed it is computed here too, so that backward, recorded as `name`, only
// hands it on.
at::Tensor loss_of_blocks(const char* name, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          std::int64_t logits_bytes, const BlockLoss& loss);

// Records gradients that are already there, of a loss with respect to `inputs`.
void record_gradients(const char* name, const std::vector<at::Tensor>& inputs, const at::Tensor& loss,
                      const std::vector<at::Tensor>& gradients);

}  // namespace cogwheel::nn
