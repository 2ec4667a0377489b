#include "cogwheel/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "cogwheel/core/openmp_executor.h"

namespace cogwheel {
namespace {

void runs_every_task_once(const Executor& executor) {
  std::vector<std::atomic<int>> runs(1000);
  std::atomic<bool> worker_in_range = true;
  executor.run(1000, [&](std::int64_t index, int worker) {
    ++runs[static_cast<std::size_t>(index)];
    if (worker < 0 || worker >= executor.workers()) worker_in_range = false;
  });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  EXPECT_TRUE(worker_in_range);
}

TEST(Executor, SerialRunsEveryTaskOnce) { runs_every_task_once(SerialExecutor()); }
TEST(Executor, OpenMPRunsEveryTaskOnce) { runs_every_task_once(OpenMPExecutor()); }

}  // namespace
}  // namespace cogwheel
