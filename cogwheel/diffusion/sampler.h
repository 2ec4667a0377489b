// Ways from noise to data, around any prediction of the noise.
//
//   ddpm: ancestral sampling, Ho, Jain, Abbeel (2020), also over fewer steps; ddim: Song, Meng, Ermon, "Denoising
//   Diffusion Implicit Models" (2021), equation 12, with η = 1 the same as ddpm; euler_sde and euler_ode:
//   Euler–Maruyama on the reverse equation of Song et al. (2021) and Euler on its probability flow; dpm_solver: Lu et
//   al., "DPM-Solver++" (2023), algorithm 2, multistep of second order on predicted data.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/diffusion/noise.h"
#include "cogwheel/diffusion/noise_schedule.h"

namespace cogwheel {

enum class SamplerKind { ddpm, ddim, euler_sde, euler_ode, dpm_solver };

std::span<const std::string_view> sampler_names();  // in the order of SamplerKind
// Throws UsageError, which begins with `what`, with the nearest names.
SamplerKind sampler_kind(std::string_view name, std::string_view what);

// ε(x, t) for a batch x [B, …] at one time.
using NoisePrediction = std::function<at::Tensor(const at::Tensor& x, double t)>;

struct SamplerOptions {
  static constexpr Range<std::int64_t> any_steps{1, 1'000'000};
  static constexpr Range<double> etas{0, 1};

  SamplerKind kind = SamplerKind::dpm_solver;
  std::int64_t steps = 50;
  double eta = 0;            // of ddim: how much of the noise of ddpm each step adds
  double last_time = -1;     // where it ends; below 0: first_time() of the schedule
  bool even_log_snr = true;  // of dpm_solver: steps that are even in log(α/σ), else in t
  bool denoise = true;       // from the last time on to 0 in one step, to the data that are predicted there
};

// The times of a sampler, from 1 down to the last one: steps + 1 of them. Of ddpm and ddim on a discrete schedule they
// are steps of the schedule. Throws UsageError for options out of range, and for more steps than a discrete schedule
// has.
std::vector<double> sampling_times(const NoiseSchedule& schedule, const SamplerOptions& options);

// Data [B, …] from x at t = 1. Numbers of steps are draws 1, 2, … of `noise`.
at::Tensor sample_diffusion(const NoiseSchedule& schedule, const NoisePrediction& predict, const at::Tensor& x,
                            const Noise& noise, const SamplerOptions& options);

}  // namespace cogwheel
