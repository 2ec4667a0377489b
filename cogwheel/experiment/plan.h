// What a comparison will do, decided before it starts and recorded, so that resuming and adding follow the same plan.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/configuration/run_config.h"
#include "cogwheel/core/range.h"
#include "cogwheel/evaluate/comparison.h"
#include "cogwheel/train/task.h"

namespace cogwheel {

// What numbers of a comparison may be.
inline constexpr Range<std::int64_t> seeds_range{1, 1000}, tune_range{0, 30};

// As the command line has it.
struct CompareRequest {
  std::string task = TaskOptions{}.name;
  std::vector<std::string> text;
  std::string tokenizer = "character";
  std::vector<std::string> attention{"softmax", "cog", "differential", "symmetric"};
  std::string preset = "small";
  std::string form = "gpt";
  std::string device = "cpu";
  std::string precision = "fp32";
  double dropout = 0;
  std::int64_t seeds = 3;
  std::string match = "parameters";
  std::int64_t steps = 0;  // 0: as many as fit the time of the preset
  std::int64_t tune = 0;
  double learning_rate = 0;  // 0: the preset's
  std::string baseline;      // empty: softmax where it is compared, else the first mechanism
};

// The comparison as asked for: checked, its data named, its mechanisms matched; steps are not decided yet.
// Throws UsageError naming the option that cannot be; numbers were checked where they were read.
Comparison plan_comparison(const CompareRequest& request);

// The task of the comparison, which evaluates the items that are the same for every run. `comparison.data` is filled in
// where it was empty and must agree where it was not; mechanisms that have no size yet are matched. Throws where this
// machine cannot train one of them. `folder`: of a comparison that is gone on with, whose records say what has changed.
std::shared_ptr<const Task> load_task(Comparison& comparison, const std::filesystem::path& folder = {});

// Adds mechanisms, matched to the baseline; their steps are not decided yet.
void add_mechanisms(Comparison& comparison, const std::vector<std::string>& names);

// What one run is told, from what the comparison has recorded, whatever its preset says today. Throws Error where the
// record contradicts itself. For a plan whose steps are not decided yet, one step.
RunConfig run_config(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed);

// Training steps per second of a mechanism's model.
using MeasureRate = std::function<double(const RunConfig&)>;

// Decides the steps of every plan that has none: `requested` where it is not 0, else as many as fit the time of the
// preset at the measured rates; the baseline's own where it has been planned before. Returns the seconds that what is
// left to do will take.
double decide_steps(Comparison& comparison, std::int64_t requested, const MeasureRate& measure);

// Steps of one trial of --tune.
std::int64_t trial_steps(const MechanismPlan& plan);

// The learning rates that --tune tries: the default and its neighbours, each twice the one before.
std::vector<double> trial_rates(double learning_rate, std::int64_t trials);

// The command that makes this comparison again, with its steps.
std::string reproduce_command(const Comparison& comparison);

}  // namespace cogwheel
