// How data are drawn from noise, apart from the functions that do it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "cogwheel/core/range.h"

namespace cogwheel::runs {

enum class SamplerKind { ddpm, ddim, euler_sde, euler_ode, dpm_solver };

std::span<const std::string_view> sampler_names();  // in the order of SamplerKind
// Throws UsageError, which begins with `what`, with the nearest names.
SamplerKind sampler_kind(std::string_view name, std::string_view what);

// How much more than the model would images show what is asked for.
inline constexpr Range<double> guidance_range{0, 1000};

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

}  // namespace cogwheel::runs
