// Sums of tensors over ranks that begin while tensors are still being made: gradients, during a backward pass.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {

// Tensors travel in buckets of one size, from the last tensor to the first, as backward passes make gradients. Each
// rank gets its share of a bucket from all that add it, adds them in a binary tree, ((t0 + t1) + (t2 + t3)) + … of
// these ranks in a given order, and sends the sum to all of them: the same bits on each rank, whatever the buckets are.
class SumOverRanks {
 public:
  // Of tensors of so many bytes in all: a sixteenth, so that little is left to send when the last gradient is there,
  // but 4 to 24 MiB, where a round trip is little and threads that send do not take turns with those that compute all
  // the time (docs/results/scale.md), and at least 64 KiB for each rank.
  static std::int64_t bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks);

  // The ranks that add a tensor, `neighbours` of which work together: the first of all such neighbours are added before
  // the second. The group outlives the sum.
  struct Adders {
    const Group* group;
    std::int64_t neighbours = 1;
  };
  // Of float32.
  struct Summand {
    std::int64_t size;
    std::size_t adders = 0;  // an index
  };

  // The same on all ranks of each group, but for what the tensors hold. `what` is for LostRanks.
  SumOverRanks(std::vector<Adders> adders, const std::vector<Summand>& tensors, std::string what);

  // A tensor is there. Ranks may call it in other orders: a bucket begins when it and all before it are full, and may
  // wait here for the one before it. Throws std::logic_error for a tensor that was there already.
  void ready(std::size_t index, const at::Tensor& tensor);

  // Collective. The tensors, which become the sums; those that `ready` had are taken as they were then.
  void finish(const std::vector<at::Tensor>& tensors);

  // Seconds that `ready` has waited for other ranks.
  double waited() const { return waited_; }

 private:
  // A stretch of one tensor within a bucket.
  struct Piece {
    std::size_t tensor;
    std::int64_t of_tensor, of_bucket, size;
  };
  struct Bucket {
    std::size_t adders;
    std::vector<Piece> pieces = {};
    std::int64_t size = 0, missing = 0;
    at::Tensor numbers = {};  // for as many owners of equal shares as there are ranks
    Exchange exchange = {};
  };

  void begin_full_buckets();
  void send_sum(Bucket& bucket);

  const Group& group_of(const Bucket& bucket) const { return *adders_[bucket.adders].group; }

  std::vector<Adders> adders_;
  std::string what_;
  std::vector<Bucket> buckets_;                       // by when their last tensor comes
  std::vector<std::vector<std::size_t>> buckets_of_;  // of each tensor
  std::vector<bool> is_there_;
  std::size_t begun_ = 0, summed_ = 0;
  double waited_ = 0;
};

}  // namespace cogwheel::distributed
