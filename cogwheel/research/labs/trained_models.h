// Models that a lab trains as `cogwheel train` does, by the same tasks, loop and options; nothing is written.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/research/labs/lab.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/translation/sequence_to_sequence_options.h"

namespace cogwheel::labs {

struct LabModel {
  std::string name;  // for readers
  runs::RunConfig config;
};

struct TrainedModel {
  std::string name;
  runs::TrainingRun run;
  pages::ChartSeries curve;  // the deciding measure, by the step
  double loss = 0;           // the same over everything that is evaluated
};

// What the parameters steps, batch, learning_rate and seed say, with the `run`-th seed from theirs on; the rate falls
// to a thirtieth as a cosine.
runs::TrainingOptions training_options(const LabParameters& given, std::int64_t run = 0);
// The parameters that `training_options` reads, with these defaults.
std::vector<LabParameter> training_parameters(double steps, double batch, double learning_rate);

// The size of a lab that trains by train_models: each model is evaluated so many times, however many steps it makes.
inline constexpr std::int64_t evaluations_of_training = 20;
inline LabSize steps_size() { return {"steps", evaluations_of_training}; }

// How many runs of each model a lab trains, of seeds that follow each other.
LabParameter seeds_parameter();

// A number of each run, number(first): of `models` trained run by run, each of the same `kinds` in one order, `first`
// is the place of a run's first.
template <class Number>
std::vector<double> of_runs(std::size_t models, std::size_t kinds, const Number& number) {
  std::vector<double> values;
  for (std::size_t first = 0; first < models; first += kinds) values.push_back(number(first));
  return values;
}

// A sequence-to-sequence model of a toy language whose words move by `distance`, trained as the parameters say, with
// the `run`-th seed from theirs on.
LabModel toy_translation(const std::string& name, tasks::translation::SequenceToSequenceOptions model,
                         std::int64_t distance, const LabParameters& given, std::int64_t run = 0);

// In the order of `models`. Throws what make_task throws, and Error where a loss is not finite.
std::vector<TrainedModel> train_models(const std::vector<LabModel>& models, const LabHost& host);

// Runs task(index) for every index in [0, tasks) on as many threads as the host has workers. libtorch computes each on
// one thread, so that numbers do not depend on how many there are. Throws the first exception of a task.
void side_by_side(std::int64_t tasks, const LabHost& host, const std::function<void(std::int64_t)>& task);

}  // namespace cogwheel::labs
