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
      : parameters_(std::move(parameters)), complete_(parameters_.size(), false), slices_(slices) {}

  // After the backward pass of each slice in turn, which adds to the gradients that are there. In between gradients are
  // held back; log2 of the slices at most, those in the parameters included. After the last one, the parameters have
  // the sum.
  void take_slice();

  // During the backward pass of the last slice, the gradient of one parameter being there: it becomes the sum.
  void complete(std::size_t parameter);
  bool is_last_slice() const { return taken_ + 1 == slices_; }

 private:
  using Gradients = std::vector<at::Tensor>;
  Gradients taken_out();
  void add_to(std::size_t parameter, const Gradients& earlier);

  std::vector<at::Tensor> parameters_;
  std::vector<Gradients> waiting_;  // sums of 2^k slices each, the largest first
  std::vector<bool> complete_;
  std::int64_t slices_, taken_ = 0;
};

}  // namespace cogwheel::runs
