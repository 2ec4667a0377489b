// The processes that train one model together, its ranks, and what they exchange.
//
// Every member function that says so is a collective: all ranks call it, in the same order, and it returns when all
// have. `what` names what is exchanged, as in "gradients of step 7", in the error of a rank whose others are gone.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel::distributed {

// Another rank has ended, or did not answer within the time that the process group allows.
class LostRanks : public Error {
 public:
  using Error::Error;
};

class Ranks {
 public:
  Ranks() = default;  // one rank, alone
  // Those of a process group by its name. Throws UsageError unless there are a power of two.
  Ranks(std::string group, std::int64_t rank, std::int64_t count);

  std::int64_t rank() const { return rank_; }
  std::int64_t count() const { return count_; }
  bool is_first() const { return rank_ == 0; }

  // Collective: what each rank has, by rank. Lengths may differ.
  std::vector<std::string> gathered(const std::string& own, const std::string& what) const;
  std::vector<std::vector<double>> gathered(const std::vector<double>& own, const std::string& what) const;
  // Collective: what the first rank has.
  std::string of_first(const std::string& own, const std::string& what) const;
  // Collective: the tensors become those of the first rank. Dense, on the CPU.
  void copy_from_first(const std::vector<at::Tensor>& tensors, const std::string& what) const;
  // Collective: float32 tensors become their sums over ranks, the same bits on each:
  // ((t0 + t1) + (t2 + t3)) + … of ranks 0, 1, 2, 3, …
  void add(const std::vector<at::Tensor>& tensors, const std::string& what) const;

 private:
  // A part of an exchange: what is sent and received while this rank goes on.
  struct Bucket;

  at::Tensor started(const char* operation, const at::Tensor& input, std::vector<c10::IValue> arguments) const;
  at::Tensor done(const at::Tensor& result) const;
  // What `exchange` returns; LostRanks for what it throws.
  template <class Exchange>
  auto exchanged(const std::string& what, const Exchange& exchange) const;

  std::string group_;
  std::int64_t rank_ = 0, count_ = 1;
};

// Of a process that trains alone.
inline const Ranks one_rank;

}  // namespace cogwheel::distributed
