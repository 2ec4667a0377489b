// The time that each of libtorch's operators takes, for `bench training --operators`.
#pragma once
#include <cstdint>
#include <string>

namespace cogwheel::cli {

// While such an object exists, operators that the dispatcher calls on any thread are timed, backward passes included.
// One at a time.
class OperatorTimes {
 public:
  OperatorTimes();
  ~OperatorTimes();
  OperatorTimes(const OperatorTimes&) = delete;
  OperatorTimes& operator=(const OperatorTimes&) = delete;

  // What ran since the last call, as a JSON array: name, dtype of the first tensor, sizes of the
  // tensors given ([[…], …], those of lists left out), calls, seconds without those of operators within, and the bytes
  // of tensors read and written (0 for views).
  std::string take_json();

 private:
  std::uint64_t handle_;
};

}  // namespace cogwheel::cli
