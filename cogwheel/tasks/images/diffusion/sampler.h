// Ways from noise to data, around any prediction of the noise.
//
//   ddpm: ancestral sampling, Ho, Jain, Abbeel (2020), also over fewer steps; ddim: Song, Meng, Ermon, "Denoising
//   Diffusion Implicit Models" (2021), equation 12, with η = 1 the same as ddpm; euler_sde and euler_ode:
//   Euler–Maruyama on the reverse equation of Song et al. (2021) and Euler on its probability flow; dpm_solver: Lu et
//   al., "DPM-Solver++" (2023), algorithm 2, multistep of second order on predicted data.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "cogwheel/runs/sampler_options.h"
#include "cogwheel/tasks/images/diffusion/noise.h"
#include "cogwheel/tasks/images/diffusion/noise_schedule.h"

namespace cogwheel::tasks::images {

// ε(x, t) for a batch x [B, …] at one time.
using NoisePrediction = std::function<at::Tensor(const at::Tensor& x, double t)>;

// The times of a sampler, from 1 down to the last one: steps + 1 of them. Of ddpm and ddim on a discrete schedule they
// are steps of the schedule. Throws UsageError for options out of range, and for more steps than a discrete schedule
// has.
std::vector<double> sampling_times(const NoiseSchedule& schedule, const runs::SamplerOptions& options);

// Data [B, …] from x at t = 1. Numbers of steps are draws 1, 2, … of `noise`.
at::Tensor sample_diffusion(const NoiseSchedule& schedule, const NoisePrediction& predict, const at::Tensor& x,
                            const Noise& noise, const runs::SamplerOptions& options);

}  // namespace cogwheel::tasks::images
