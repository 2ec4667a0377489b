#include "cogwheel/distributed/group.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace cogwheel::distributed {
namespace {

// Gloo's "[file:line] Connection closed by peer [address]. This is typically …" without where and why it says so.
std::string short_problem(std::string problem) {
  if (const std::size_t place = problem.find("] "); problem.starts_with('[') && place != std::string::npos)
    problem.erase(0, place + 2);
  problem.resize(std::min(problem.find(". This is typically"), problem.size()));
  return one_line(problem);
}

// Bytes, because not every backend has every type of number.
at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.contiguous().view(-1).view(at::kByte); }

at::Tensor called(const char* operation, torch::jit::Stack stack) {
  const at::NoGradGuard no_gradient;
  c10::Dispatcher::singleton().findSchemaOrThrow(operation, "").callBoxed(stack);
  return stack.back().toTensor();
}

// The exchange of each process group that may still go on. ProcessGroupGloo (torch 2.13) keeps the name of what it did
// last in a string that its threads assign without a lock: two exchanges that end at one time corrupt the heap. So one
// begins when the one before has ended, of this thread or another.
class OneAtATime {
 public:
  // Waits for the exchange before; `begin` begins the next.
  template <class Begin>
  at::Tensor after_last(const std::string& group, const Begin& begin) {
    const std::lock_guard<std::mutex> lock(mutex_);
    at::Tensor& last = last_[group];
    if (last.defined()) called("_c10d_functional::wait_tensor", {last});
    last.reset();
    return last = begin();
  }
  void ended(const std::string& group, const at::Tensor& exchange) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = last_.find(group);
    if (found != last_.end() && found->second.is_same(exchange)) last_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, at::Tensor> last_;
};

OneAtATime& one_at_a_time() {
  static OneAtATime all;
  return all;
}

}  // namespace

at::Tensor Exchange::result(const std::string& what) {
  at::Tensor all;  // of several parts: bytes of each rank
  if (parts_.size() > 1) {
    std::int64_t of_rank = 0;
    for (const Part& part : parts_) of_rank += part.begun.numel() / group_->count();
    all = at::empty({group_->count(), of_rank}, at::kByte);
  }
  std::int64_t first = 0;
  for (Part& part : parts_) {
    at::Tensor bytes = std::move(part.begun);
    if (group_->count() > 1)
      bytes = group_->attempt(what, [&] {
        const at::Tensor done = called("_c10d_functional::wait_tensor", {bytes});
        if (group_->threads_ == Group::Threads::several) one_at_a_time().ended(group_->name_, bytes);
        return done;
      });
    part.sent.reset();
    if (parts_.size() == 1) {
      all = bytes;
      continue;
    }
    const std::int64_t size = bytes.numel() / group_->count();
    all.narrow(1, first, size).copy_(bytes.view({group_->count(), size}));
    first += size;
  }
  parts_.clear();
  return all.view(-1).view(type_).view(sizes_);
}

Group::Group(std::string name, std::int64_t rank, std::int64_t count, Threads threads)
    : name_(std::move(name)), rank_(rank), count_(count), threads_(threads) {}

template <class Act>
at::Tensor Group::attempt(const std::string& what, const Act& act) const {
  std::string problem;
  try {
    return act();
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  throw LostRanks(expected_got(
      "ranks", "all " + std::to_string(count_) + " to go on",
      "on rank " + std::to_string(rank_) + ", in the exchange of " + what + ": " + short_problem(problem)));
}

at::Tensor Group::begin(const char* operation, const at::Tensor& input, std::vector<c10::IValue> arguments,
                        const std::string& what) const {
  if (count_ == 1) return input;
  return attempt(what, [&] {
    torch::jit::Stack stack{input};
    for (c10::IValue& argument : arguments) stack.push_back(std::move(argument));
    stack.emplace_back(name_);
    const auto act = [&] { return called(operation, std::move(stack)); };
    return threads_ == Threads::one ? act() : one_at_a_time().after_last(name_, act);
  });
}

Exchange::Part Group::begin_all_to_all(const at::Tensor& bytes, const std::vector<std::int64_t>& sent,
                                       const std::vector<std::int64_t>& received, const std::string& what) const {
  return {begin("_c10d_functional::all_to_all_single", bytes, {received, sent}, what), bytes};
}

std::int64_t Group::parts_of_message(const at::Tensor& tensor, std::int64_t bytes) const {
  // With several threads one exchange is under way at a time, so that beginning all parts would wait for all but the
  // last. NCCL cuts by itself.
  if (count_ == 1 || threads_ == Threads::several || !tensor.is_cpu()) return 1;
  return std::max<std::int64_t>(1, (bytes + largest_message - 1) / largest_message);
}

Exchange Group::gather(const at::Tensor& own, const std::string& what) const {
  const at::Tensor bytes = bytes_of(own);
  Exchange exchange(this, with_ranks(count_, own.sizes()), own.scalar_type());
  for (const at::Tensor& part : bytes.chunk(parts_of_message(bytes, bytes.numel())))
    exchange.parts_.push_back({begin("_c10d_functional::all_gather_into_tensor", part, {count_}, what), part});
  return exchange;
}

Exchange Group::exchange(const at::Tensor& parts, const std::string& what) const {
  const std::int64_t of_rank = parts.numel() / count_ * parts.element_size(), pieces = parts_of_message(parts, of_rank);
  Exchange exchange(this, parts.sizes().vec(), parts.scalar_type());
  const at::Tensor bytes = bytes_of(parts).view({count_, of_rank});
  for (const at::Tensor& part : pieces == 1 ? std::vector<at::Tensor>{bytes} : bytes.chunk(pieces, 1)) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(count_), part.size(1));
    exchange.parts_.push_back(begin_all_to_all(part.reshape(-1), counts, counts, what));
  }
  return exchange;
}

Exchange Group::exchange(const at::Tensor& flat, const std::vector<std::int64_t>& sent,
                         const std::vector<std::int64_t>& received, const std::string& what) const {
  const at::Tensor bytes = bytes_of(flat);
  const auto in_bytes = [&](std::vector<std::int64_t> counts) {
    for (std::int64_t& each : counts) each *= static_cast<std::int64_t>(flat.element_size());
    return counts;
  };
  Exchange exchange(this, {-1}, flat.scalar_type());
  exchange.parts_.push_back(begin_all_to_all(bytes, in_bytes(sent), in_bytes(received), what));
  return exchange;
}

Exchange Group::from_first(const at::Tensor& own, const std::string& what) const {
  const at::Tensor bytes = bytes_of(own);
  Exchange exchange(this, own.sizes().vec(), own.scalar_type());
  exchange.parts_.push_back({begin("_c10d_functional::broadcast", bytes, {std::int64_t{0}}, what), bytes});
  return exchange;
}

std::vector<std::int64_t> with_ranks(std::int64_t ranks, at::IntArrayRef own) {
  std::vector<std::int64_t> sizes{ranks};
  sizes.insert(sizes.end(), own.begin(), own.end());
  return sizes;
}

at::Tensor sum_of_ranks(const at::Tensor& of_ranks) {
  at::Tensor sum = of_ranks[0];
  for (std::int64_t rank = 1; rank < of_ranks.size(0); ++rank) sum = sum + of_ranks[rank];
  return sum;
}

}  // namespace cogwheel::distributed
