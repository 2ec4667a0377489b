#include "cogwheel/runs/training/batch_prefetcher.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/batch.h"
#include "runs/decorated_task.h"
#include "runs/tiny_run.h"

namespace cogwheel::runs {
namespace {

// Remembers what it is asked for; a place of it cannot be read until it is mended.
class AskedTask : public DecoratedTask {
 public:
  AskedTask() : DecoratedTask(tiny_task()) {}

  Batch batch(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place) const override {
    asked.push_back(place.batches);
    if (place.batches == damaged) throw Error("corpus: expected a shard, got none");
    return DecoratedTask::batch(model, training, place);
  }

  mutable std::vector<std::int64_t> asked;
  std::int64_t damaged = -1;
};

class BatchPrefetcherTest : public testing::Test {
 protected:
  Batch take(std::int64_t number) { return prefetcher_.take(*run_.model(), run_.options(), place(number)); }
  void prefetch(std::int64_t number) { prefetcher_.prefetch(*run_.model(), run_.options(), place(number)); }
  static DataPlace place(std::int64_t number) { return {number, number * tiny_training().batch}; }

  TrainingRun run_ = tiny_run();
  std::shared_ptr<AskedTask> task_ = std::make_shared<AskedTask>();
  BatchPrefetcher prefetcher_{task_};
};

TEST_F(BatchPrefetcherTest, WhatIsThereIsNotMadeAgain) {
  prefetch(3);
  const Batch taken = take(3), again = take(3);
  EXPECT_EQ(task_->asked, (std::vector<std::int64_t>{3, 3}));
  EXPECT_TRUE(at::equal(taken.inputs, again.inputs) && at::equal(taken.targets, again.targets));
  EXPECT_EQ(taken.tokens, again.tokens);
}

// As after rows that were left out meanwhile.
TEST_F(BatchPrefetcherTest, AnotherPlaceIsMade) {
  prefetch(1);
  const Batch other = take(2);
  EXPECT_EQ(task_->asked, (std::vector<std::int64_t>{1, 2}));
  EXPECT_FALSE(at::equal(other.inputs, take(1).inputs));
  EXPECT_EQ(task_->asked.back(), 1);
}

TEST_F(BatchPrefetcherTest, WhatFailsIsToldWhenItIsTaken) {
  task_->damaged = 1;
  EXPECT_NO_THROW(prefetch(1));
  EXPECT_THROW(take(1), Error);
  task_->damaged = -1;
  EXPECT_NO_THROW(take(1));
}

}  // namespace
}  // namespace cogwheel::runs
