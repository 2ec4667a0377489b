// Sums of tensors over ranks that begin while tensors are still being made: gradients, during a backward pass.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/distributed/buckets.h"
#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {

// Tensors travel in buckets, from the last tensor to the first, as backward passes make gradients. Each rank gets its
// stretch of each tensor (buckets.h) from all that add it, adds them in a binary tree, ((t0 + t1) + (t2 + t3)) + … of
// these ranks in a given order, and sends the sum to all of them, or keeps it: the same bits, whatever the buckets are.
class SumOverRanks {
 public:
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

  // Whether all ranks get the sums, or each those of its own stretches, which begin at multiples of `unit`.
  struct Sums {
    bool stay_with_owners = false;
    std::int64_t unit = 1;
  };

  // The same on all ranks of each group, but for what the tensors hold. `what` is for LostRanks.
  SumOverRanks(std::vector<Adders> adders, const std::vector<Summand>& tensors, std::string what, Sums sums);

  // A tensor is there, contiguous. Where all ranks get the sums it becomes its sum, some time until `finish` ends; else
  // it is not needed any more. Ranks may call it in other orders: a bucket begins when it and all before it are full,
  // and may wait here for those before it. Throws std::logic_error for a tensor that was there already.
  void ready(std::size_t index, const at::Tensor& tensor);
  bool is_there(std::size_t index) const { return is_there_[index]; }

  // Collective, after all tensors were `ready`: they are sums now.
  void finish();
  // Collective, where sums stay with their owners, after all tensors were `ready`: of each, the sum of this rank's
  // stretch, flat.
  std::vector<at::Tensor> finish_own();

  // Seconds that `ready` has waited for other ranks.
  double waited() const { return waited_; }

 private:
  struct Part {
    std::size_t adders;
    ExchangePlan plan = {};
    bool ends_bucket = false;
    std::size_t missing = 0;  // pieces
    at::Tensor numbers = {};  // [ranks, length]
    Exchange exchange = {};
  };

  void begin_full_buckets();
  void send_sum(Part& part);
  void take_sum(Part& part);

  const Group& group_of(const Part& part) const { return *adders_[part.adders].group; }
  Owners owners_of(const Part& part) const { return Owners(group_of(part).count(), sums_.unit); }

  std::vector<Adders> adders_;
  std::vector<Summand> tensors_;
  std::string what_;
  Sums sums_;
  std::vector<Part> parts_;  // in the order in which they begin; those of a bucket follow each other
  std::vector<std::vector<std::size_t>> parts_of_;  // of each tensor
  std::vector<bool> is_there_;
  std::vector<at::Tensor> flat_;      // of tensors that become sums
  std::vector<at::Tensor> own_sums_;  // where they stay with owners
  // How many parts have begun, have been added here, have been sent to all before the last bucket began, have come
  // back.
  std::size_t begun_ = 0, summed_ = 0, sent_before_ = 0, taken_ = 0;
  double waited_ = 0;
};

}  // namespace cogwheel::distributed
