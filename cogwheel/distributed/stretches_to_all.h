// Tensors of which each rank has made its own stretch, and gets the others': weights, after a step of which each rank
// made a part.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/distributed/buckets.h"
#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {

// Stretches travel in buckets, from the first tensor to the last, as forward passes use weights: two buckets are under
// way while this rank computes.
class StretchesToAll {
 public:
  // Collective. float32, contiguous; the same sizes on all ranks. They are not to be read, nor changed, before they
  // have come. The group outlives it. `what` is for LostRanks.
  StretchesToAll(const Group& ranks, std::vector<at::Tensor> tensors, std::int64_t unit, std::string what);

  // Waits until the tensor has come, and all before it. Each begins the exchange of what follows: with other exchanges
  // of the group in between, ranks call these in the same order.
  void wait_for(std::size_t tensor);
  void wait_for_all();

  // Seconds in which this rank has waited for others.
  double waited() const { return waited_; }

 private:
  void begin_next();
  void take_next();

  const Group& group_;
  Owners owners_;
  std::vector<at::Tensor> flat_;
  std::string what_;
  std::vector<ExchangePlan> plans_;
  std::vector<std::size_t> exchanges_until_;  // of each tensor: how many exchanges until it has come
  std::vector<Exchange> under_way_;           // of each
  std::size_t begun_ = 0, taken_ = 0;
  double waited_ = 0;
};

}  // namespace cogwheel::distributed
