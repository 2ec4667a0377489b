// What a network tells of x_t = α x_0 + σ ε, and the noise that follows from it.
//
//   noise     ε itself: Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models" (2020), eq. 14
//   velocity  v = α ε − σ x_0, so that ε = σ x_t + α v: Salimans and Ho, "Progressive Distillation for Fast Sampling of
//             Diffusion Models" (2022), section 4. Where almost all is noise, ε is almost x_t itself, which a network
//             tells only as well as it copies its input; an error of v becomes α times as large a one of ε.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/tasks/images/diffusion/noise_schedule.h"

namespace cogwheel::tasks::images {

enum class Prediction { noise, velocity };

// Their names, in the order of the enumeration.
const std::vector<std::string>& prediction_names();
// Throws UsageError that names `what`.
Prediction find_prediction(std::string_view name, std::string_view what);

// α and σ of entries that a network is told these times of, [B], as [B, 1, 1, 1] of the type and device of `like`.
struct NoiseShares {
  at::Tensor alpha, sigma;
};
NoiseShares shares_at(const NoiseSchedule& schedule, const at::Tensor& network_times, const at::Tensor& like);

// ε from what the network told; alpha and sigma broadcast to x.
at::Tensor noise_of(Prediction prediction, const at::Tensor& output, const at::Tensor& x, const at::Tensor& alpha,
                    const at::Tensor& sigma);

// The mean squared error of what the network told, from its noise and the true one: of v it is that of ε over α².
at::Tensor prediction_error(Prediction prediction, const at::Tensor& noise, const at::Tensor& true_noise,
                            const at::Tensor& alpha);

}  // namespace cogwheel::tasks::images
