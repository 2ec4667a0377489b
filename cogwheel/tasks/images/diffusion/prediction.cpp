#include "cogwheel/tasks/images/diffusion/prediction.h"

#include <torch/types.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/weights/to_device.h"

namespace cogwheel::tasks::images {

const std::vector<std::string>& prediction_names() {
  static const std::vector<std::string> names{"noise", "velocity"};
  return names;
}

Prediction find_prediction(std::string_view name, std::string_view what) {
  const auto& names = prediction_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw UsageError(expected_got(what, expected_names(name, names), name));
  return static_cast<Prediction>(found - names.begin());
}

NoiseShares shares_at(const NoiseSchedule& schedule, const at::Tensor& network_times, const at::Tensor& like) {
  const at::Tensor when = network_times.detach().to(at::kCPU, at::kDouble);
  std::vector<double> alphas, sigmas;
  for (std::int64_t entry = 0; entry < when.size(0); ++entry) {
    const double t = schedule.time_of_network(when[entry].item<double>());
    alphas.push_back(schedule.alpha(t));
    sigmas.push_back(schedule.sigma(t));
  }
  const auto by_entry = [&](const std::vector<double>& values) {
    return nn::to_device(at::tensor(values, at::kDouble).to(like.scalar_type()), like.device()).view({-1, 1, 1, 1});
  };
  return {by_entry(alphas), by_entry(sigmas)};
}

at::Tensor noise_of(Prediction prediction, const at::Tensor& output, const at::Tensor& x, const at::Tensor& alpha,
                    const at::Tensor& sigma) {
  return prediction == Prediction::noise ? output : sigma * x + alpha * output;
}

at::Tensor prediction_error(Prediction prediction, const at::Tensor& noise, const at::Tensor& true_noise,
                            const at::Tensor& alpha) {
  return prediction == Prediction::noise ? at::mse_loss(noise, true_noise)
                                         : ((noise - true_noise) / alpha).square().mean();
}

}  // namespace cogwheel::tasks::images
