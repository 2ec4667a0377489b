// The plan of a comparison, decided before it starts and recorded, so that resuming and adding follow the same plan.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/compare/plan/variants.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/core/range.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::compare {

// The allowed ranges of numbers of a comparison.
inline constexpr Range<std::int64_t> seeds_range{1, 1000}, tune_range{0, 30}, widths_range{1, 1 << 20};

// The options of the command line.
struct CompareRequest {
  std::string task;  // empty: the preset's
  std::vector<std::string> text;
  std::vector<std::string> corpus = {};           // folders, in place of a text
  std::map<std::string, std::string> task_files;  // by the option of the task (tasks/task_files.h)
  std::int64_t bytes = 0;  // of the text, its first ones; 0: all of one that is given, else the default
  std::string tokenizer = "character";
  std::vector<std::string> attention;  // empty: the preset's, unless there are variants
  std::vector<Variant> variants = {};
  std::vector<std::int64_t> widths = {};  // each row at each of them; none: at that of the configuration
  std::string preset;                     // empty: small, or that of the task where another model learns it
  std::string form;                       // empty: the preset's
  std::string position;                   // empty: the form's
  std::string recurrent_layer = "paper";
  std::string device = "cpu";
  std::string precision = "fp32";
  std::optional<double> dropout;  // none: the preset's
  std::int64_t seeds = 3;
  std::string match = "parameters";
  std::int64_t steps = 0;  // 0: the preset's, or as many as fit its time
  double seconds = 0;      // of the whole comparison, in which as many steps fit; 0: the preset's
  std::int64_t tune = 0;
  double learning_rate = 0;      // 0: the preset's
  std::string baseline;          // empty: softmax where it is compared, else the first mechanism
  std::vector<std::string> set;  // "key=value" of the configuration that all runs share
};

// The requested comparison: checked, its data named, its mechanisms matched; steps are not decided yet. Throws
// UsageError that names the first invalid option; numbers were checked when they were read.
Comparison plan_comparison(const CompareRequest& request);

// Adds mechanisms, or variants as parse_variant reads them; they are not matched and their steps not decided yet.
void add_rows(Comparison& comparison, const std::vector<std::string>& rows);

// The configuration of one run, from the record of the comparison, even if its preset has changed since. One step, for
// a plan whose steps are not decided yet.
runs::RunConfig run_config(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed);

// Training steps per second of a row's model.
using MeasureRate = std::function<double(const MechanismPlan&, const runs::RunConfig&)>;

// How long runs are: steps, or, where these are 0, as many as fit into so many seconds of the whole comparison.
struct StepBudget {
  std::int64_t steps = 0;
  double seconds = 0;  // 0: those of the preset
};

// What the request or its preset asks for.
StepBudget requested_budget(const CompareRequest& request);

// What the run of a row is called where files are: in its configuration and of its folder.
std::string run_name(std::string_view mechanism, std::int64_t seed);

// Decides the steps of every plan that has none: those of the baseline if they are decided already; else those of the
// budget, at the measured rates. Returns the estimated seconds of the remaining work.
double decide_steps(Comparison& comparison, const StepBudget& budget, const MeasureRate& measure);

// The learning rate of a row unless it is searched.
double untuned_rate(const Comparison& comparison, const MechanismPlan& plan);

// The number of steps of one trial of --tune.
std::int64_t trial_steps(const MechanismPlan& plan);

// The learning rates that --tune tries: the default and its neighbours, each twice the previous one.
std::vector<double> trial_rates(double learning_rate, std::int64_t trials);

// The command that repeats this comparison, with its steps.
std::string reproduce_command(const Comparison& comparison);

}  // namespace cogwheel::compare
