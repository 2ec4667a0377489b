// Weights that still come from other ranks while a forward pass goes on: each block waits for its own.
#pragma once
#include <functional>

namespace torch::nn {
class Module;
}

namespace cogwheel::nn {

// While such an object exists, blocks of passes on its thread call `wait` before they read their parameters. All that
// is not within a block has to be there before the pass.
class AwaitedWeights {
 public:
  using Wait = std::function<void(const torch::nn::Module& block)>;

  explicit AwaitedWeights(Wait wait);
  ~AwaitedWeights();
  AwaitedWeights(const AwaitedWeights&) = delete;
  AwaitedWeights& operator=(const AwaitedWeights&) = delete;

  static void wait_for(const torch::nn::Module& block);

 private:
  Wait wait_;
  const AwaitedWeights* before_;
};

}  // namespace cogwheel::nn
