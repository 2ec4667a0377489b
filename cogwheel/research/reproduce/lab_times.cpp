#include "cogwheel/research/reproduce/lab_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cogwheel/core/process/wall_clock.h"

namespace cogwheel::reproduce {
namespace {

std::int64_t size_of(const LabExperiment& experiment) {
  return experiment.parameters.whole(experiment.lab->size.parameter);
}

// Returns what was set.
std::string set_size(LabExperiment& experiment, std::int64_t size) {
  const std::string assignment = fmt::format("{}={}", experiment.lab->size.parameter, size);
  experiment.parameters.assign(assignment, experiment.name);
  return assignment;
}

double seconds_of(const LabExperiment& experiment, const labs::LabHost& host) {
  const auto begin = WallClock::now();
  run_lab(experiment, {.executor = host.executor});
  return seconds_since(begin);
}

}  // namespace

LabTimes measure_lab(const LabExperiment& experiment, const labs::LabHost& host, double most) {
  // A first run starts threads and reads what all runs need: where it is short, that is most of it.
  constexpr double short_run = 2, enough_seconds = 1, enough_share = 0.5;
  constexpr std::int64_t growth = 4;
  const std::int64_t whole = size_of(experiment), small = std::min(whole, experiment.lab->size.unit);
  LabExperiment part = experiment;
  double spent = 0;
  const auto tried = [&](std::int64_t size) {
    set_size(part, size);
    const double seconds = seconds_of(part, host);
    spent += seconds;
    return seconds;
  };
  double least = tried(small);
  if (least < short_run) least = tried(small);
  if (small == whole) return {.fixed = least};
  std::int64_t large = small;
  double more = 0;
  do {
    large = std::min(whole, growth * large);
    more = tried(large) - least;
  } while (large < whole && spent < most && more < std::max(enough_seconds, enough_share * least));
  // Where nothing is seen to grow, no more than all of it does.
  const double each = more > 0 ? more / static_cast<double>(large - small) : least / static_cast<double>(large);
  return {.fixed = std::max(0.0, least - static_cast<double>(small) * each),
          .by_size = static_cast<double>(whole) * each};
}

std::string fit_lab(LabExperiment& experiment, LabTimes& times, double seconds) {
  const std::int64_t before = size_of(experiment);
  const double share =
      times.seconds() <= seconds || times.by_size == 0 ? 1 : std::max(0.0, seconds - times.fixed) / times.by_size;
  std::string set =
      set_size(experiment, std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(before))));
  times.by_size *= static_cast<double>(size_of(experiment)) / static_cast<double>(before);
  return set;
}

namespace {

// Whether the size is given, so that it stays.
bool asks_for_size(const ReproductionRequest& request, const std::string& parameter) {
  return !request.fitted.empty() || (request.steps > 0 && parameter == steps_parameter) ||
         std::ranges::any_of(request.set,
                             [&](const std::string& assignment) { return assignment.starts_with(parameter + "="); });
}

bool changes_lab(const ReproductionRequest& request) {
  return request.seeds > 0 || request.steps > 0 || !request.set.empty() || !request.fitted.empty();
}

}  // namespace

LabForecast forecast_lab(LabExperiment& experiment, const ReproductionRequest& request, const labs::LabHost& host,
                         bool to_tell) {
  const std::string& size = experiment.lab->size.parameter;
  const double declared = changes_lab(request) ? 0 : experiment.minutes, seconds = 60 * request.minutes;
  const bool surely_ends = declared > 0 && 2 * declared <= request.minutes;
  const bool fits = seconds > 0 && !size.empty() && !asks_for_size(request, size) && !surely_ends;
  const bool is_told = surely_ends || (declared > 0 && declared <= small_minutes);
  if (!fits && (!to_tell || size.empty() || is_told)) return {.seconds = 60 * experiment.minutes};
  host.progress("trying how long it takes");
  const auto start = WallClock::now();
  LabTimes times = measure_lab(experiment, host, fits ? seconds / 4 : std::numeric_limits<double>::infinity());
  LabForecast forecast{.seconds = times.seconds(), .measured = true};
  if (!fits) return forecast;
  const double left = seconds - seconds_since(start);
  const std::int64_t before = size_of(experiment);
  forecast.fitted = fit_lab(experiment, times, left);
  forecast.seconds = times.seconds();
  forecast.smaller = size_of(experiment) < before;
  forecast.exceeds = times.seconds() > left;
  return forecast;
}

}  // namespace cogwheel::reproduce
