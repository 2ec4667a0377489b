#include "cogwheel/diffusion/prediction.h"

#include <torch/types.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"

namespace cogwheel {

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

at::Tensor noise_of(Prediction prediction, const at::Tensor& output, const at::Tensor& x, const at::Tensor& alpha,
                    const at::Tensor& sigma) {
  return prediction == Prediction::noise ? output : sigma * x + alpha * output;
}

at::Tensor prediction_error(Prediction prediction, const at::Tensor& noise, const at::Tensor& true_noise,
                            const at::Tensor& alpha) {
  return prediction == Prediction::noise ? at::mse_loss(noise, true_noise)
                                         : ((noise - true_noise) / alpha).square().mean();
}

}  // namespace cogwheel
