// Processes that exchange tensors: a process group of PyTorch, made in Python, found here by its name.
//
// Every exchange is a collective: all ranks begin the same ones in the same order. It goes on while this rank computes,
// until its result is asked for (or, where the group has several threads, the next one begins). With one rank it gives
// back what it is given, so that code above need not ask.
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

// Bytes that one rank sends another at a time where both send as much. What the buffers of a socket do not hold at once
// Gloo (torch 2.13) sends in one direction after the other, at little more than half of a link's rate
// (docs/results/scale.md).
inline constexpr std::int64_t largest_message = 3 << 19;

class Group;

// An exchange that has begun.
class Exchange {
 public:
  Exchange() = default;
  // Waits. `what` names what is exchanged, as in "gradients of step 7", in the LostRanks of a rank whose others are
  // gone.
  at::Tensor result(const std::string& what);

 private:
  friend class Group;
  Exchange(const Group* group, std::vector<std::int64_t> sizes, at::ScalarType type)
      : group_(group), sizes_(std::move(sizes)), type_(type) {}

  struct Part {
    at::Tensor begun, sent;  // what is sent lives until it has gone
  };

  const Group* group_ = nullptr;
  std::vector<Part> parts_;  // several: of messages to each rank, one after the other
  std::vector<std::int64_t> sizes_;
  at::ScalarType type_ = at::kByte;
};

class Group {
 public:
  // Of the process group that carries exchanges out. One thread takes them in turn, so that several may have begun; of
  // others (`several`) one has begun at a time, and the next waits for it.
  enum class Threads { one, several };

  Group() = default;  // of one rank, alone
  Group(std::string name, std::int64_t rank, std::int64_t count, Threads threads = Threads::several);

  std::int64_t rank() const { return rank_; }
  std::int64_t count() const { return count_; }

  // What each rank has, of equal sizes: [ranks, …] by rank.
  Exchange gather(const at::Tensor& own, const std::string& what) const;
  // parts [ranks, …], part r for rank r → [ranks, …], part r from rank r.
  Exchange exchange(const at::Tensor& parts, const std::string& what) const;
  // The same, in one message to each rank, of parts that differ in size: how many numbers of the flat tensor are for
  // each rank and come from each.
  Exchange exchange(const at::Tensor& flat, const std::vector<std::int64_t>& sent,
                    const std::vector<std::int64_t>& received, const std::string& what) const;
  // What the first rank has.
  Exchange from_first(const at::Tensor& own, const std::string& what) const;

 private:
  friend class Exchange;
  at::Tensor begin(const char* operation, const at::Tensor& input, std::vector<c10::IValue> arguments,
                   const std::string& what) const;
  // Of flat bytes: how many are for each rank, and come from each.
  Exchange::Part begin_all_to_all(const at::Tensor& bytes, const std::vector<std::int64_t>& sent,
                                  const std::vector<std::int64_t>& received, const std::string& what) const;
  // In how many parts a message of so many bytes travels.
  std::int64_t parts_of_message(const at::Tensor& tensor, std::int64_t bytes) const;
  // What `act` returns; LostRanks for what it throws.
  template <class Act>
  at::Tensor attempt(const std::string& what, const Act& act) const;

  std::string name_;
  std::int64_t rank_ = 0, count_ = 1;
  Threads threads_ = Threads::one;
};

// Sizes of what `gather` gives for a tensor of such sizes.
std::vector<std::int64_t> with_ranks(std::int64_t ranks, at::IntArrayRef own);

// Σ over ranks of what they sent here, [ranks, …] as `exchange` gives it, in their order: the same bits each time.
at::Tensor sum_of_ranks(const at::Tensor& of_ranks);

}  // namespace cogwheel::distributed
