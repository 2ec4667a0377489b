// An executor on the standard library's threads, started anew for every run: for what reads files, and for tests and
// measurements that should not depend on which library's threads the program uses.
#pragma once
#include <atomic>
#include <thread>
#include <vector>

#include "cogwheel/core/parallel.h"

namespace cogwheel {

class ThreadsExecutor final : public Executor {
 public:
  explicit ThreadsExecutor(int workers) : workers_(workers) {}
  int workers() const override { return workers_; }
  void run(std::int64_t tasks, const Task& task) const override {
    std::atomic<std::int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers_; ++worker)
      threads.emplace_back([&, worker] {
        for (std::int64_t index; (index = next.fetch_add(1)) < tasks;) task(index, worker);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int workers_;
};

}  // namespace cogwheel
