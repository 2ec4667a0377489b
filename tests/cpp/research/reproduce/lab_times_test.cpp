#include "cogwheel/research/reproduce/lab_times.h"

#include <gtest/gtest.h>

#include "cogwheel/ops/support/executor.h"

namespace cogwheel::reproduce {
namespace {

LabExperiment experiment_of(const std::string& lab, const std::string& parameters) {
  return parse_lab_experiment("lab = \"" + lab + "\"\n[parameters]\n" + parameters, "s2/x", "x.toml");
}

// A tenth of a second of training, of steps of some microseconds.
constexpr const char* quick = "widths = [8]\nsymbols = [3]\nlongest = 3\nstrings = 5\nbatch = 4\nsteps = 40\nseeds = 1";

labs::LabHost host() {
  static const ops::TorchExecutor executor;
  return {.executor = executor};
}

TEST(LabTimes, FitByMakingTheSizeSmaller) {
  LabExperiment experiment = experiment_of("copy", "steps = 1000");
  LabTimes times{.fixed = 10, .by_size = 100};
  EXPECT_EQ(fit_lab(experiment, times, 110), "steps=1000");
  EXPECT_EQ(fit_lab(experiment, times, 60), "steps=500");
  EXPECT_EQ(experiment.parameters.whole("steps"), 500);
  EXPECT_NEAR(times.seconds(), 60, 1e-9);
  // Where what it takes anyway is more than there is, as little as there can be.
  EXPECT_EQ(fit_lab(experiment, times, 5), "steps=1");
  EXPECT_NEAR(times.seconds(), 10.1, 1e-9);
}

TEST(LabTimes, AreThoseOfSmallRuns) {
  const LabExperiment experiment = experiment_of("copy", quick);
  const LabTimes times = measure_lab(experiment, host(), 1e9);
  EXPECT_GT(times.seconds(), 0);
  EXPECT_GE(times.by_size, 0);
  EXPECT_EQ(experiment.parameters.whole("steps"), 40);
}

TEST(LabForecast, TriesWhatItHasTo) {
  const auto forecast = [](const std::string& lab, const std::string& parameters, double declared,
                           const ReproductionRequest& request, bool to_tell) {
    LabExperiment experiment = experiment_of(lab, parameters);
    experiment.minutes = declared;
    set_parameters(experiment, request);
    return forecast_lab(experiment, request, host(), to_tell);
  };
  const ReproductionRequest plain, ten{.experiment = {}, .minutes = 10};
  // What it takes is not asked for, or declared: nothing is tried.
  EXPECT_FALSE(forecast("copy", quick, 30, plain, false).measured);
  EXPECT_FALSE(forecast("copy", quick, 2, plain, true).measured);
  EXPECT_FALSE(forecast("copy", quick, 5, ten, false).measured);
  EXPECT_EQ(forecast("copy", quick, 5, ten, true).seconds, 300);
  EXPECT_EQ(forecast("capacity", "", 30, ten, true).seconds, 1800);  // a lab without a size
  // Declared is the file's own size alone.
  EXPECT_TRUE(forecast("copy", quick, 2, {.experiment = {}, .seeds = 2}, true).measured);
  EXPECT_EQ(forecast("copy", quick, 5, {.experiment = {}, .seeds = 2, .minutes = 10}, false).fitted, "steps=40");
  // A size that was asked for, or fitted before, stays.
  EXPECT_EQ(forecast("copy", quick, 30, {.experiment = {}, .steps = 7, .minutes = 10}, false).fitted, "");
  EXPECT_EQ(forecast("copy", quick, 30, {.experiment = {}, .minutes = 10, .set = {"steps=7"}}, false).fitted, "");
  EXPECT_EQ(forecast("copy", quick, 30, {.experiment = {}, .minutes = 10, .fitted = {"steps=7"}}, false).fitted, "");
  const LabForecast fits = forecast("copy", quick, 30, ten, false);
  EXPECT_EQ(fits.fitted, "steps=40");
  EXPECT_FALSE(fits.smaller || fits.exceeds);
  const LabForecast late = forecast("copy", quick, 30, {.experiment = {}, .minutes = 1e-9}, false);
  EXPECT_EQ(late.fitted, "steps=1");
  EXPECT_TRUE(late.smaller && late.exceeds);
}

TEST(ReproductionRequest, IsTheRecordedOneButForWhatWasFitted) {
  const ReproductionRequest asked{.experiment = "s2/copy", .minutes = 10, .set = {"seed=3"}};
  ReproductionRequest recorded = asked;
  recorded.fitted = {"steps=700"};
  EXPECT_TRUE(is_recorded(asked, recorded));
  EXPECT_TRUE(is_recorded(asked, parse_request(request_to_json(recorded), "request.json")));
  recorded.set = {"seed=4"};
  EXPECT_FALSE(is_recorded(asked, recorded));
  recorded.set = {"seed=3", "width=8"};
  EXPECT_FALSE(is_recorded(asked, recorded));
}

}  // namespace
}  // namespace cogwheel::reproduce
