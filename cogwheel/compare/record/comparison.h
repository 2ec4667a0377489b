// The record of a comparison: settings, runs and summary. results.json holds exactly this (docs/results-format.md).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/nn/hooks/head_statistics.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/measure.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::compare {

enum class RunStatus { done, diverged, interrupted, failed };

std::string_view status_name(RunStatus status);
RunStatus find_status(std::string_view name);

struct CurvePoint {
  std::int64_t step = 0;
  std::optional<double> train_loss = {};  // mean since the previous point
  runs::MeasuredValues measured = {};     // over DataFacts::curve_tokens; null where not finite
  nn::StatisticsOfHeads heads = {};       // empty where not measured
};

struct RunResult {
  std::string mechanism = {};
  std::int64_t seed = 0;
  double learning_rate = 0;
  std::int64_t parameters = 0;
  std::int64_t tokens = 0;
  double seconds = 0;             // of training steps alone, without evaluation
  double evaluation_seconds = 0;  // of measures and statistics of heads
  double tokens_per_second = 0;   // of training steps alone
  std::optional<std::int64_t> peak_memory_bytes = {};
  RunStatus status = RunStatus::done;
  std::string message = {};            // why the run ended, if it is not done
  runs::MeasuredValues measured = {};  // over everything that is evaluated
  std::vector<CurvePoint> curve = {};
  std::vector<runs::MeasuresByDifficulty> by_difficulty = {};  // of the finished model; empty where the task has none
};

// How one row takes part, a mechanism or a variant: the matched quantities, and the values of the unmatched ones.
struct MechanismPlan {
  std::string name = {};
  // What is the row's own, "key=value" each, its mechanism among them; empty: it is the mechanism of its name.
  std::vector<std::string> set = {};
  std::string title = {};
  std::string formula = {};
  std::string definition = {};  // of a user's own mechanism (authoring.h)
  std::int64_t steps = 0;
  double learning_rate = 0;
  std::int64_t heads = 0;
  std::int64_t feed_forward = 0;
  std::int64_t parameters = 0;
  std::int64_t parameters_unmatched = 0;  // at the widths of the baseline
  // Of a comparison at several widths: the row that this is at one of them, which width, and its parameters without
  // embeddings and head.
  std::string series = {};
  std::int64_t width = 0;
  std::int64_t block_parameters = 0;

  std::string mechanism() const;
  // Whether nothing but the mechanism, at its width, is the row's own, and that has the row's name.
  bool is_mechanism() const;
  // The row's name, or that of its series: without the width.
  const std::string& family() const { return series.empty() ? name : series; }
  // Its title without the width.
  std::string family_title() const;
};

// " at 64", which ends the names and titles of rows of several widths.
std::string width_suffix(std::int64_t width);

// One trial of `--tune`.
struct TuningTrial {
  std::string mechanism = {};
  double learning_rate = 0;
  std::int64_t steps = 0;
  // The value of the deciding measure on the data for tuning; none if the trial diverged or failed.
  std::optional<double> value = {};
  std::string message = {};  // why it failed
  bool chosen = false;
};

struct SummaryRow {
  std::string mechanism = {};
  std::int64_t seeds = 0;  // runs that finished
  std::optional<double> mean = {};
  std::optional<double> interval = {};  // half the width of the 95 % t interval
  std::int64_t pairs = 0;               // seeds in which the baseline finished too
  std::optional<double> difference = {};
  // Neither an interval nor a p where the difference is the same in every pair: nothing shows how far it scatters.
  std::optional<double> difference_interval = {};    // half the width, at difference_confidence
  std::optional<double> difference_confidence = {};  // see holm()
  std::optional<double> p_adjusted = {};

  // Means of the other measures of the task over the same runs.
  runs::MeasuredValues others = {};

  // Whether the difference is significant. The wording of the report follows the adjusted p-value, as does the
  // interval.
  bool clear() const;
  // Whether several pairs have all the same difference, so that it cannot be told from chance.
  bool without_spread() const { return pairs > 1 && !p_adjusted; }
};

struct Comparison {
  std::string command = {};
  std::string created = {};  // ISO 8601, UTC
  bool interrupted = false;

  struct Versions {
    std::string cogwheel, torch, compiler, chart_js;
  } versions;
  struct Machine {
    std::string cpu, instructions, matrix_products, system;  // matrix_products: the library
    std::int64_t cores = 0, threads = 0, memory_bytes = 0;
    std::int64_t workers = 0;            // processes that trained at the same time; 0: that of the comparison alone
    std::string device = "cpu";          // where models learned
    std::string device_name = {};        // what its maker calls it; empty where nobody says
    std::string bfloat16_products = {};  // how attention and layers multiplied them, where they did
  } machine;
  runs::TaskDescription task;
  runs::DataFacts data;
  // What was asked for and does not follow from the configuration.
  struct Settings {
    std::string preset;
    std::string form = "gpt";  // of the models; see tasks/language/language_model_form.h
    std::int64_t steps = 0;    // of the baseline; 0: not decided yet
    std::int64_t tune = 0;
    double wall_seconds = 0;
    std::vector<std::int64_t> seeds;
    std::vector<std::string> set = {};      // keys that are not the preset's, as in "model.width=256"
    std::vector<std::int64_t> widths = {};  // each row at each of them, rising; none: rows have what they have
  } settings;

  // What all runs share (compare/record/shared_configuration.h); what the data, the mechanisms, the seeds and the steps
  // decide has its default here.
  runs::RunConfig configuration = {};
  std::string match = {};                      // parameters, time or tokens
  std::string baseline = {};                   // the name of a row; of several widths the first: see base_of
  std::vector<MechanismPlan> mechanisms = {};  // in the order of the report
  std::vector<TuningTrial> tuning = {};
  std::vector<RunResult> runs = {};
  std::vector<SummaryRow> summary = {};

  // Those of one training step.
  std::int64_t tokens_per_step() const;
  // Whether the baseline trains on fewer tokens than it has parameters: the ranking after so short a run may change.
  // Nothing is known of budgets that count other things, such as images, which are many tokens each.
  bool early_in_training() const;

  // The value of the deciding measure; null where the run is not done or it was not measured.
  const double* result(const RunResult* run) const;
  // Whether one value of the deciding measure is better than another.
  bool better(double first, double second) const { return task.decisive().better(first, second); }

  const MechanismPlan* plan(std::string_view mechanism) const;
  // The row with which one is compared, by name: the baseline, of several widths that of the same width.
  const std::string& base_of(std::string_view mechanism) const;
  bool is_base(std::string_view mechanism) const { return base_of(mechanism) == mechanism; }
  // The name of the baseline without a width.
  const std::string& baseline_family() const;
  const SummaryRow* row(std::string_view mechanism) const;
  const RunResult* run(std::string_view mechanism, std::int64_t seed) const;
  std::vector<const RunResult*> runs_of(std::string_view mechanism) const;
  std::int64_t planned_runs() const;
  std::int64_t finished_runs() const;
  // Whether a planned run is still to be made, or made again. One that diverged would diverge again.
  bool is_to_do(std::string_view mechanism, std::int64_t seed) const;
  std::int64_t runs_to_do() const;
  // Whether a learning rate of a row was tried.
  bool is_tried(std::string_view mechanism, double rate) const;
};

// The summary of the finished runs; the others are left out. One row per mechanism, in the order of `mechanisms`.
std::vector<SummaryRow> summarize(const Comparison& comparison);

}  // namespace cogwheel::compare
