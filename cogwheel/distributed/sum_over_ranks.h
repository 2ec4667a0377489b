// Sums of tensors over ranks that begin while tensors are still being made: gradients, during a backward pass.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {

// Tensors travel in buckets of one size, from the last tensor to the first, as backward passes make gradients. Each
// rank gets its share of a bucket from all, adds them in a binary tree, ((t0 + t1) + (t2 + t3)) + … of the ranks in a
// given order, and sends the sum to all: the same bits on each rank, whatever the buckets are.
class SumOverRanks {
 public:
  // Of tensors of so many bytes in all: a sixteenth, so that little is left to send when the last gradient is there,
  // but 4 to 24 MiB, where a round trip is little and threads that send do not take turns with those that compute all
  // the time (docs/results/scale.md), and at least 64 KiB for each rank.
  static std::int64_t bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks);

  // How many numbers each tensor has, alike on all ranks; float32. `what` is for LostRanks. `order`: of all ranks.
  SumOverRanks(const Group& group, std::vector<std::int64_t> sizes, std::string what, std::vector<std::int64_t> order);

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
    std::vector<Piece> pieces;
    std::int64_t size = 0, missing = 0;
    at::Tensor numbers;  // for as many owners of equal shares as there are ranks
    Exchange exchange;
  };

  void begin_full_buckets();
  void send_sum(Bucket& bucket);

  const Group& group_;
  std::string what_;
  std::vector<std::int64_t> order_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // of each tensor
  std::vector<bool> is_there_;
  std::size_t begun_ = 0, summed_ = 0;
  double waited_ = 0;
};

}  // namespace cogwheel::distributed
