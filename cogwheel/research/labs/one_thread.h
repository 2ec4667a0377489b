// While such an object exists, libtorch computes on one thread: sums of small tensors have the same bits then for any
// number of threads, and small tensors gain nothing from more.
#pragma once
#include <ATen/Parallel.h>

namespace cogwheel::labs {

class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace cogwheel::labs
