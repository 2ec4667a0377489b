#include "cogwheel/compare/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/error.h"

namespace cogwheel::compare {
namespace {

MechanismPlan& plan_of(Comparison& comparison, const WorkItem& item) {
  const auto found = std::ranges::find(comparison.mechanisms, item.mechanism, &MechanismPlan::name);
  if (found == comparison.mechanisms.end())
    throw Error(expected_got("work: mechanism", "a row of the comparison", item.mechanism));
  return *found;
}

// Takes the trials of its row that others made. Whether the rate of its runs is known then.
bool knows_rate(const WorkQueue& queue, Comparison& comparison, MechanismPlan& plan) {
  if (comparison.settings.tune == 0) return true;
  for (const WorkItem& item : queue.items()) {
    if (!item.rate || item.mechanism != plan.name || comparison.is_tried(plan.name, *item.rate)) continue;
    const auto trial = queue.trial(item);
    if (!trial) return false;
    comparison.tuning.push_back(*trial);
  }
  choose_rate(comparison, plan);
  return true;
}

// Whether it was made; else the maker was asked to stop.
bool make(const WorkItem& item, const WorkClaim& claim, const Comparison& comparison, const MechanismPlan& plan,
          RunMaker& maker) {
  if (item.rate) {
    const auto trial = maker.try_rate(comparison, plan, *item.rate);
    if (trial) claim.keep(*trial, maker.take_lines());
    return trial.has_value();
  }
  const RunResult result = maker.make_run(comparison, plan, item.seed);
  if (result.status == RunStatus::interrupted) return false;
  claim.keep(result, maker.take_lines());
  return true;
}

}  // namespace

std::int64_t work_on(const WorkQueue& queue, Comparison comparison, RunMaker& maker) {
  std::int64_t made = 0;
  // The first item that can be made now. An item may be taken between the look and the claim: then the next is.
  const auto make_first = [&](bool& any_left) {
    for (const WorkItem& item : queue.items()) {
      if (queue.has_result(item)) continue;
      any_left = true;
      MechanismPlan& plan = plan_of(comparison, item);
      if (!item.rate && !knows_rate(queue, comparison, plan)) continue;
      const auto claim = queue.claim(item);
      if (!claim) continue;
      try {
        made += make(item, *claim, comparison, plan, maker);
      } catch (const Error&) {
        if (queue.is_open()) throw;  // else nobody waits for it, and its folder may be gone
      }
      return true;
    }
    return false;
  };
  while (!maker.asked_to_stop() && queue.is_open()) {
    bool any_left = false;
    if (make_first(any_left)) continue;
    if (!any_left) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return made;
}

}  // namespace cogwheel::compare
