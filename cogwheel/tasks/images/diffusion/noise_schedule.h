// How data turn into noise: x_t = α(t) x_0 + σ(t) ε for t from 0 (data) to 1 (noise), α² + σ² = 1, ε normal.
//
//   Song et al., "Score-Based Generative Modeling through Stochastic Differential Equations" (2021): the continuous
//   one, dx = −½ β(t) x dt + √β(t) dw, with β linear in t. Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models"
//   (2020), and Rombach et al., "High-Resolution Image Synthesis with Latent Diffusion Models" (2022): steps
//   n = 1 … T at t = n/T, log α linear between them as Lu et al., "DPM-Solver" (2022) have it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::tasks::images {

class NoiseSchedule {
 public:
  // β from beta_first at t = 0 to beta_last at t = 1, both above 0.
  static NoiseSchedule continuous(double beta_first = 0.1, double beta_last = 20);
  // β_n linear in n (DDPM), or √β_n linear (latent diffusion), each above 0 and below 1.
  static NoiseSchedule linear(std::int64_t steps = 1000, double beta_first = 1e-4, double beta_last = 0.02);
  static NoiseSchedule scaled_linear(std::int64_t steps = 1000, double beta_first = 8.5e-4, double beta_last = 0.012);

  // "continuous", "linear", "scaled_linear", with their numbers as above.
  static const std::vector<std::string>& names();
  // Throws UsageError, which begins with `what`, with the nearest names.
  static NoiseSchedule named(std::string_view name, std::string_view what);

  // Of t in [0, 1]; beyond, std::logic_error.
  double log_alpha(double t) const;
  double alpha(double t) const;
  double sigma(double t) const;
  double log_snr(double t) const;  // log(α/σ), +∞ at t = 0; falls as t grows
  // −2 d log α / dt; of steps, that of n for t above (n − 1)/T and up to n/T, from where a sampler takes the step n.
  double beta(double t) const;
  // The t whose log(α/σ) is that, in [0, 1]; beyond the range of the schedule, its end.
  double time_of_log_snr(double log_snr) const;

  // T, or 0 of a continuous schedule.
  std::int64_t steps() const { return static_cast<std::int64_t>(log_alphas_.size()) - (log_alphas_.empty() ? 0 : 1); }
  // What a network is told of t: 999 t, or the number of the step, n − 1 at t = n/T.
  double network_time(double t) const;
  double time_of_network(double told) const;  // the t of which it is told that
  // Where sampling ends unless told otherwise: 0.001, or the first step.
  double first_time() const { return steps() == 0 ? 1e-3 : 1.0 / static_cast<double>(steps()); }

 private:
  NoiseSchedule(double beta_first, double beta_last) : beta_first_(beta_first), beta_last_(beta_last) {}
  explicit NoiseSchedule(const std::vector<double>& betas);

  double beta_first_ = 0, beta_last_ = 0;  // of a continuous one
  std::vector<double> log_alphas_ = {};    // of a discrete one, at n = 0 … T
};

}  // namespace cogwheel::tasks::images
