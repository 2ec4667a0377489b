// The processes that train one model together, its ranks, and what they exchange.
//
// Every member function that says so is a collective: all ranks call it, in the same order, and it returns when all
// have. `what` names what is exchanged, as in "gradients of step 7", in the error of a rank whose others are gone.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"
#include "cogwheel/distributed/sum_over_ranks.h"

namespace cogwheel::distributed {

class Ranks {
 public:
  Ranks() = default;  // one rank, alone
  // Those of a process group by its name. Throws UsageError unless there are a power of two.
  Ranks(std::string group, std::int64_t rank, std::int64_t count);

  std::int64_t rank() const { return group_.rank(); }
  std::int64_t count() const { return group_.count(); }
  bool is_first() const { return rank() == 0; }

  // Collective: what each rank has, by rank. Lengths may differ.
  std::vector<std::string> gathered(const std::string& own, const std::string& what) const;
  std::vector<std::vector<double>> gathered(const std::vector<double>& own, const std::string& what) const;
  // Collective: what the first rank has.
  std::string of_first(const std::string& own, const std::string& what) const;
  // Collective: the tensors become those of the first rank. Dense, on the CPU.
  void copy_from_first(const std::vector<at::Tensor>& tensors, const std::string& what) const;
  // Of tensors of these sizes; while none is given, no collective.
  SumOverRanks sum(std::vector<std::int64_t> sizes, std::string what) const;
  // Collective: float32 tensors become their sums over ranks, the same bits on each (sum_over_ranks.h).
  void add(const std::vector<at::Tensor>& tensors, const std::string& what) const;

 private:
  Group group_;
};

// Of a process that trains alone.
inline const Ranks one_rank;

}  // namespace cogwheel::distributed
