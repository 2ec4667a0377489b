// Counts the bytes of tensors that operators make and that are still alive, on the `meta` device too, where they take
// none: what a pass would need, known before there is memory for it. What an operator makes and frees within itself is
// not seen.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

namespace cogwheel::runs {

// While one exists, it follows the operators of its thread. One at a time.
class LiveTensors {
 public:
  struct Made {
    const c10::StorageImpl* storage;
    std::int64_t bytes, columns;  // of the tensor by which it was met first: its last size
  };

  LiveTensors();
  ~LiveTensors();
  LiveTensors(const LiveTensors&) = delete;
  LiveTensors& operator=(const LiveTensors&) = delete;

  // Not counted: what was there before, weights, say.
  void leave_out(const at::Tensor& tensor);
  // What consisted of the most bytes that were alive after any operator since the last `begin`.
  const std::vector<Made>& at_peak() const { return at_peak_; }
  void begin();

  // Of the observer: an operator gave this; an operator has ended.
  void take(const at::Tensor& tensor);
  void count();

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Tracked {
    Weak storage;
    Made made;
  };

  std::unordered_set<const c10::StorageImpl*> met_;
  std::vector<Tracked> live_;
  std::vector<Weak> kept_;  // of what is gone or not counted: no other storage gets the address while one is held
  std::vector<Made> at_peak_;
  std::int64_t bytes_ = 0, peak_ = 0;  // alive; the most
  std::uint64_t handle_ = 0;
};

}  // namespace cogwheel::runs
