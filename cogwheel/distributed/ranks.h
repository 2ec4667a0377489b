// The processes that train one model together, its ranks, and what they exchange.
//
// Every member function that says so is a collective: all ranks call it, in the same order, and it returns when all
// have. `what` names what is exchanged, as in "gradients of step 7", in the error of a rank whose others are gone.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"
#include "cogwheel/distributed/sum_over_ranks.h"

namespace cogwheel::distributed {

class Ranks {
 public:
  // Collective of all ranks: divides them into groups of `size`, numbers `stride` apart, and returns the name of the
  // one that this rank is in.
  using MakeGroup = std::function<std::string(std::int64_t size, std::int64_t stride)>;

  Ranks() = default;  // one rank, alone
  // Those of a process group by its name.
  Ranks(std::string group, std::int64_t rank, std::int64_t count, MakeGroup make_group = {});

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
  // Collective: float32 tensors become their sums over ranks, the same bits on each (sum_over_ranks.h).
  void add(const std::vector<at::Tensor>& tensors, const std::string& what) const;
  const Group& all() const { return group_; }
  // Collective: the group that this rank is in of so many, `stride` numbers apart: size · stride divides the ranks.
  Group of(std::int64_t size, std::int64_t stride) const;

 private:
  Group group_;
  MakeGroup make_group_;
};

// Of a process that trains alone.
inline const Ranks one_rank;

}  // namespace cogwheel::distributed
