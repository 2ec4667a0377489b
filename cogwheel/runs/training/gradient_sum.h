// The sum of the gradients of a step's slices, in one order whoever computes them: a binary tree over the slices'
// numbers,
//
//   ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace cogwheel::runs {

class GradientSum {
 public:
  // `slices`: a power of two.
  GradientSum(std::vector<at::Tensor> parameters, std::int64_t slices)
      : parameters_(std::move(parameters)), slices_(slices) {}

  // After the backward pass of each slice in turn, which adds to the gradients that are there. In between gradients are
  // held back; log2 of the slices at most, those in the parameters included. After the last one, the parameters have
  // the sum.
  void take_slice();

 private:
  using Gradients = std::vector<at::Tensor>;
  Gradients taken_out();

  std::vector<at::Tensor> parameters_;
  std::vector<Gradients> waiting_;  // sums of 2^k slices each, the largest first
  std::int64_t slices_, taken_ = 0;
};

}  // namespace cogwheel::runs
