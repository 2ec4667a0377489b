#include "cogwheel/nn/ranks/awaited_weights.h"

#include <utility>

namespace cogwheel::nn {
namespace {

thread_local const AwaitedWeights* awaited_weights = nullptr;

}  // namespace

AwaitedWeights::AwaitedWeights(Wait wait) : wait_(std::move(wait)), before_(std::exchange(awaited_weights, this)) {}
AwaitedWeights::~AwaitedWeights() { awaited_weights = before_; }

void AwaitedWeights::wait_for(const torch::nn::Module& block) {
  if (awaited_weights != nullptr) awaited_weights->wait_(block);
}

}  // namespace cogwheel::nn
