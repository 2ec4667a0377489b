#include "cogwheel/compare/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/worker.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace cogwheel::compare {
namespace {

struct Planned {
  Comparison comparison;
  RowTasks tasks;
};

Planned plan(std::int64_t seeds, std::int64_t tune) {
  CompareRequest request;
  request.preset = "recall";
  request.attention = {"softmax", "cog"};
  request.seeds = seeds;
  request.tune = tune;
  Comparison comparison = plan_comparison(request);
  RowTasks tasks = load_tasks(comparison);
  decide_steps(comparison, {.steps = 4}, [](const auto&...) { return 100.0; });
  return {comparison, tasks};
}

ComparisonHooks silent() {
  return {.progress = [](const auto&...) {}, .line = [](const auto&) {}, .stop = nullptr};
}

TEST(WorkQueue, HasTrialsFirstAndThenTheLongest) {
  const Comparison comparison = plan(2, 2).comparison;
  const std::vector<WorkItem> items = items_to_do(comparison, {{"softmax", 100}, {"cog", 50}});
  std::vector<std::string> names;
  for (const WorkItem& item : items) names.push_back(item.name());
  const double rate = untuned_rate(comparison, comparison.mechanisms.front());
  const auto trial = [&](const std::string& row, double of) { return WorkItem{.mechanism = row, .rate = of}.name(); };
  EXPECT_EQ(names, (std::vector<std::string>{trial("cog", rate / 2), trial("cog", rate), trial("softmax", rate / 2),
                                             trial("softmax", rate), "cog-seed-1", "cog-seed-2", "softmax-seed-1",
                                             "softmax-seed-2"}));
}

// Of eight workers on sixteen cores, each as fast as one alone: fifteen runs of five rows that differ in speed.
TEST(WorkQueue, EightWorkersAreSixTimesAsFastAsOne) {
  Comparison comparison = plan(3, 0).comparison;
  std::map<std::string, double> rates;
  const MechanismPlan row = comparison.mechanisms.front();
  comparison.mechanisms.clear();
  for (const double rate : {10.0, 9.5, 9.0, 8.0, 7.0}) {
    comparison.mechanisms.push_back(row);
    comparison.mechanisms.back().name = "row " + std::to_string(rate);
    rates[comparison.mechanisms.back().name] = rate;
  }
  const std::vector<WorkItem> items = items_to_do(comparison, rates);
  EXPECT_GE(time_of_workers(items, 1) / time_of_workers(items, 8), 6);
  // Shortest first, the last of them runs alone.
  const std::vector<WorkItem> shortest_first(items.rbegin(), items.rend());
  EXPECT_LT(time_of_workers(items, 8), time_of_workers(shortest_first, 8));
}

TEST(WorkQueue, SecondsOfWorkersAreThoseOfTheirLongestShare) {
  const std::vector<WorkItem> items{{.mechanism = "slow", .seed = 1, .cost = 6},
                                    {.mechanism = "fast", .seed = 1, .cost = 2},
                                    {.mechanism = "fast", .seed = 2, .cost = 2}};
  EXPECT_DOUBLE_EQ(seconds_of_workers(items, 1, 100, 1), 100);
  // One process of as many threads as one worker has is as fast as each of them: 60 s beside 40 s.
  EXPECT_DOUBLE_EQ(seconds_of_workers(items, 2, 100, 2), 60);
  EXPECT_DOUBLE_EQ(seconds_of_workers(items, 3, 100, 3), 60);
  // Where it has both threads already and they gain nothing, neither of them makes more by itself.
  EXPECT_DOUBLE_EQ(seconds_of_workers(items, 2, 100, 1), 120);
  EXPECT_DOUBLE_EQ(seconds_of_workers(items, 1, 100, 0.5), 200);
  EXPECT_DOUBLE_EQ(seconds_of_workers({}, 2, 0, 2), 0);
}

// The lowest of equally good ones, whatever order they were tried in.
TEST(WorkQueue, EveryWorkerChoosesTheSameRate) {
  for (const bool reversed : {false, true}) {
    Comparison comparison = plan(1, 2).comparison;
    MechanismPlan& row = comparison.mechanisms.front();
    comparison.tuning = {{.mechanism = row.name, .learning_rate = 1e-3, .value = 0.5},
                         {.mechanism = row.name, .learning_rate = 2e-3, .value = 0.5},
                         {.mechanism = row.name, .learning_rate = 4e-3, .value = std::nullopt}};
    if (reversed) std::ranges::reverse(comparison.tuning);
    choose_rate(comparison, row);
    EXPECT_EQ(row.learning_rate, 1e-3);
  }
}

TEST(WorkQueue, AnItemHasOneOwnerAtATimeAndOneResult) {
  const TemporaryFolder temporary;
  const auto folder = ComparisonFolder::create(temporary.path() / "out", false);
  const WorkQueue queue = WorkQueue::open(folder.path(), terms_here(), items_to_do(plan(1, 0).comparison, {}));
  EXPECT_TRUE(queue.is_open());
  const WorkQueue other = WorkQueue::join(folder.path());
  const WorkItem& item = other.items().front();
  EXPECT_EQ(other.items().size(), 2u);
  {
    const auto claim = queue.claim(item);
    ASSERT_TRUE(claim);
    EXPECT_TRUE(other.is_claimed(item));
    EXPECT_FALSE(other.claim(item));
    EXPECT_TRUE(other.claim(other.items().back()));
    EXPECT_EQ(other.last_process(item), ::getpid());
  }
  EXPECT_FALSE(other.is_claimed(item));
  other.claim(item)->keep(RunResult{.mechanism = item.mechanism, .seed = item.seed, .status = RunStatus::failed},
                          {"said"});
  EXPECT_TRUE(queue.has_result(item));
  EXPECT_FALSE(queue.claim(item));
  EXPECT_EQ(queue.run(item, plan(1, 0).comparison.task)->status, RunStatus::failed);
  EXPECT_EQ(queue.lines(item), (std::vector<std::string>{"said"}));
  // Opened again, the work begins without results, and who worked on the first queue sees that it is another.
  const WorkQueue again = WorkQueue::open(folder.path(), terms_here(), {item});
  EXPECT_FALSE(again.has_result(item));
  EXPECT_FALSE(other.is_open());
  again.close();
  EXPECT_FALSE(again.is_open());
  remove_work(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "work"));
}

TEST(WorkQueue, IsJoinedByWorkersThatMakeTheSame) {
  const TemporaryFolder temporary;
  const auto folder = ComparisonFolder::create(temporary.path() / "out", false);
  const auto refusal = [&](WorkTerms terms) -> std::string {
    const WorkQueue queue = WorkQueue::open(folder.path(), std::move(terms), {});
    try {
      WorkQueue::join(folder.path());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto but = [](auto member, auto value) {
    WorkTerms terms = terms_here();
    terms.*member = value;
    return terms;
  };
  EXPECT_EQ(refusal(terms_here()), "");
  const std::string path = folder.path().string();
  EXPECT_EQ(refusal(but(&WorkTerms::build, "0123")),
            path + ": the build of cogwheel: expected 0123, got " + terms_here().build);
  EXPECT_EQ(refusal(but(&WorkTerms::instructions, "z80")),
            path + ": instructions: expected z80, got " + terms_here().instructions);
  EXPECT_EQ(refusal(but(&WorkTerms::matrix_products, "abacus")),
            path + ": the library of matrix products: expected abacus, got " + terms_here().matrix_products);
  // Of bfloat16 numbers a worker takes the others' products, and says so where it has none such.
  const WorkTerms own = terms_here(true);
  WorkTerms terms = own;
  EXPECT_FALSE(terms.attention_product.empty() || terms.layer_product.empty());
  EXPECT_EQ(refusal(terms), "");
  terms.attention_product = "widened";
  EXPECT_EQ(refusal(terms), "");
  EXPECT_EQ(terms_here(true).attention_product, "widened");
  terms.attention_product = "abacus";
  EXPECT_EQ(refusal(terms).rfind(path + ": products of bfloat16 numbers in attention: expected abacus, got ", 0), 0U);
  EXPECT_EQ(refusal(own), "");
}

TEST(WorkQueue, IsClosedWhereItsProcessHasEnded) {
  const TemporaryFolder temporary;
  std::optional<WorkQueue> queue;
  {
    const auto folder = ComparisonFolder::create(temporary.path() / "out", false);
    queue = WorkQueue::open(folder.path(), terms_here(), items_to_do(plan(1, 0).comparison, {}));
    EXPECT_TRUE(queue->is_open());
  }
  EXPECT_FALSE(queue->is_open());
  EXPECT_THROW(WorkQueue::join(temporary.path() / "out"), Error);
}

// Each in a thread of its own, as processes are.
TEST(WorkQueue, WorkersShareTrialsAndRunsOfAJob) {
  const TemporaryFolder temporary;
  const Planned planned = plan(2, 2);
  const auto alone_in = ComparisonFolder::create(temporary.path() / "alone", false);
  ComparisonJob alone(planned.comparison, planned.tasks, alone_in, silent());
  alone.run();

  const auto folder = ComparisonFolder::create(temporary.path() / "shared", false);
  ComparisonJob job(planned.comparison, planned.tasks, folder, silent());
  std::vector<std::jthread> workers;
  std::vector<std::int64_t> made(2);
  job.share(terms_here(), items_to_do(planned.comparison, {}), [&](const WorkQueue&) {
    while (workers.size() < made.size())
      workers.emplace_back([&, worker = workers.size()] {
        RunMaker maker(planned.tasks, ComparisonFolder::join(folder.path()), silent(), nullptr);
        made[worker] = work_on(WorkQueue::join(folder.path()), folder.read(), maker);
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  workers.clear();
  EXPECT_EQ(made[0] + made[1], 8);
  const Comparison &one = alone.comparison(), &two = job.comparison();
  ASSERT_EQ(one.tuning.size(), two.tuning.size());
  for (std::size_t index = 0; index < one.tuning.size(); ++index) {
    EXPECT_EQ(one.tuning[index].mechanism, two.tuning[index].mechanism);
    EXPECT_EQ(one.tuning[index].value, two.tuning[index].value);
    EXPECT_EQ(one.tuning[index].chosen, two.tuning[index].chosen);
  }
  ASSERT_EQ(one.runs.size(), two.runs.size());
  for (std::size_t index = 0; index < one.runs.size(); ++index) {
    EXPECT_EQ(one.runs[index].mechanism, two.runs[index].mechanism);
    EXPECT_EQ(one.runs[index].seed, two.runs[index].seed);
    EXPECT_EQ(one.runs[index].learning_rate, two.runs[index].learning_rate);
    EXPECT_EQ(*one.result(&one.runs[index]), *two.result(&two.runs[index]));
  }
}

}  // namespace
}  // namespace cogwheel::compare
