// What is done when a backward pass has made the gradient of a parameter, while it still makes others.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace cogwheel::runs {

class MadeGradients {
 public:
  MadeGradients() = default;
  ~MadeGradients();
  MadeGradients(const MadeGradients&) = delete;
  MadeGradients& operator=(const MadeGradients&) = delete;

  // Until `forget`: after the gradient of this parameter has been added to what it had, once in each backward pass.
  void on_made(const at::Tensor& parameter, std::function<void()> act);
  void forget();

 private:
  std::vector<at::Tensor> parameters_;
};

}  // namespace cogwheel::runs
