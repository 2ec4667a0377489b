#include "cogwheel/tasks/images/diffusion/sampler.h"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::images {
namespace {

struct Step {
  const NoiseSchedule& schedule;
  double t, s;  // from, to; s below t

  double alpha_t() const { return schedule.alpha(t); }
  double alpha_s() const { return schedule.alpha(s); }
  double sigma_t() const { return schedule.sigma(t); }
  double sigma_s() const { return schedule.sigma(s); }
};

at::Tensor data_of(const Step& step, const at::Tensor& x, const at::Tensor& predicted) {
  return (x - step.sigma_t() * predicted) / step.alpha_t();
}

// x_s = α_s x̂_0 + √(σ_s² − η² v) ε + η √v z, with v the variance of x_s given x_t and x_0.
at::Tensor ddim_step(const Step& step, const at::Tensor& x, const at::Tensor& predicted, double eta,
                     const std::function<at::Tensor()>& draw) {
  const double ratio = step.alpha_t() / step.alpha_s(), sigma_s = step.sigma_s(), sigma_t = step.sigma_t();
  const double variance =
      sigma_s * sigma_s / (sigma_t * sigma_t) * (sigma_t * sigma_t - ratio * ratio * sigma_s * sigma_s);
  const double drawn = eta * std::sqrt(std::max(0.0, variance));
  const double kept = std::sqrt(std::max(0.0, sigma_s * sigma_s - drawn * drawn));
  at::Tensor next = step.alpha_s() * data_of(step, x, predicted) + kept * predicted;
  if (drawn > 0) next += drawn * draw();
  return next;
}

// Backward in time, score = −ε/σ: dx = (½ β x + c β score) dt + √β dw, c = 1, or dx without noise, c = ½.
at::Tensor euler_step(const Step& step, const at::Tensor& x, const at::Tensor& predicted, bool stochastic,
                      const std::function<at::Tensor()>& draw) {
  const double moved = step.schedule.beta(step.t) * (step.t - step.s);
  at::Tensor next = x + moved * (0.5 * x - (stochastic ? 1.0 : 0.5) / step.sigma_t() * predicted);
  if (stochastic && step.s > 0) next += std::sqrt(moved) * draw();
  return next;
}

// Multistep: x_s = σ_s/σ_t x_t − α_s (e^(−h) − 1) D, h the growth of log(α/σ), D the predicted data, extrapolated from
// the step before.
class DpmSolver {
 public:
  at::Tensor step(const Step& step, const at::Tensor& x, const at::Tensor& predicted) {
    const double growth = step.schedule.log_snr(step.s) - step.schedule.log_snr(step.t);
    const at::Tensor data = data_of(step, x, predicted);
    at::Tensor extrapolated = data;
    if (before_.defined()) {
      const double half = 0.5 * growth / growth_before_;
      extrapolated = (1 + half) * data - half * before_;
    }
    before_ = data, growth_before_ = growth;
    return step.sigma_s() / step.sigma_t() * x - step.alpha_s() * std::expm1(-growth) * extrapolated;
  }

 private:
  at::Tensor before_;
  double growth_before_ = 0;
};

}  // namespace

std::vector<double> sampling_times(const NoiseSchedule& schedule, const runs::SamplerOptions& options) {
  expect_within("steps", options.steps, runs::SamplerOptions::any_steps);
  expect_within("eta", options.eta, runs::SamplerOptions::etas);
  const double last = options.last_time < 0 ? schedule.first_time() : options.last_time;
  if (!(last > 0 && last < 1))
    throw UsageError(expected_got("last time", "above 0, below 1", number_text(options.last_time)));
  const bool ancestral = options.kind == runs::SamplerKind::ddpm || options.kind == runs::SamplerKind::ddim;
  const auto count = static_cast<double>(options.steps);
  std::vector<double> times;
  if (ancestral && schedule.steps() > 0) {
    // Steps of the schedule from T to n, as even as whole numbers are; the last of them goes on to the data.
    if (options.steps > schedule.steps())
      throw UsageError(expected_got("steps", "at most the " + std::to_string(schedule.steps()) + " of the schedule",
                                    std::to_string(options.steps)));
    const auto all = static_cast<double>(schedule.steps());
    for (std::int64_t i = 0; i < options.steps; ++i)
      times.push_back(std::round(all - static_cast<double>(i) * all / count) / all);
    times.push_back(0);
    return times;
  }
  const bool by_log_snr = options.kind == runs::SamplerKind::dpm_solver && options.even_log_snr;
  const double from = by_log_snr ? schedule.log_snr(1) : 1, to = by_log_snr ? schedule.log_snr(last) : last;
  for (std::int64_t i = 0; i <= options.steps; ++i) {
    const double at = from + (to - from) * static_cast<double>(i) / count;
    times.push_back(i == 0 ? 1 : i == options.steps ? last : by_log_snr ? schedule.time_of_log_snr(at) : at);
  }
  return times;
}

at::Tensor sample_diffusion(const NoiseSchedule& schedule, const NoisePrediction& predict, const at::Tensor& start,
                            const Noise& noise, const runs::SamplerOptions& options) {
  const torch::NoGradGuard no_grad;
  const std::vector<double> times = sampling_times(schedule, options);
  at::Tensor x = start;
  DpmSolver solver;
  for (std::size_t i = 0; i + 1 < times.size(); ++i) {
    const Step step{schedule, times[i], times[i + 1]};
    const at::Tensor predicted = predict(x, step.t);
    const auto draw = [&] { return noise.normal(x, static_cast<std::int64_t>(i) + 1); };
    switch (options.kind) {
      case runs::SamplerKind::ddpm:
      case runs::SamplerKind::ddim:
        x = ddim_step(step, x, predicted, options.kind == runs::SamplerKind::ddpm ? 1 : options.eta, draw);
        break;
      case runs::SamplerKind::euler_sde:
      case runs::SamplerKind::euler_ode:
        x = euler_step(step, x, predicted, options.kind == runs::SamplerKind::euler_sde, draw);
        break;
      case runs::SamplerKind::dpm_solver:
        x = solver.step(step, x, predicted);
        break;
    }
  }
  if (!options.denoise || times.back() == 0) return x;
  return data_of({schedule, times.back(), 0}, x, predict(x, times.back()));
}

}  // namespace cogwheel::tasks::images
