#include "cogwheel/tasks/images/diffusion/prediction.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::images {
namespace {

at::Tensor normal(std::uint64_t seed) {
  return torch::randn({3, 2, 4, 4}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

TEST(Prediction, OfTheVelocityIsThatOfTheNoise) {
  const at::Tensor data = normal(1), noise = normal(2), error = 0.1 * normal(3);
  const at::Tensor alpha = at::tensor({0.99, 0.5, 0.01}, at::kDouble).view({-1, 1, 1, 1}),
                   sigma = (1 - alpha.square()).sqrt();
  const at::Tensor x = alpha * data + sigma * noise, velocity = alpha * noise - sigma * data;
  EXPECT_TRUE(at::allclose(noise_of(Prediction::velocity, velocity, x, alpha, sigma), noise, 1e-12, 1e-12));
  EXPECT_TRUE(noise_of(Prediction::noise, noise, x, alpha, sigma).is_same(noise));
  // An error of the velocity is its error, and α times that of the noise.
  const at::Tensor off = noise_of(Prediction::velocity, velocity + error, x, alpha, sigma);
  EXPECT_NEAR(prediction_error(Prediction::velocity, off, noise, alpha).item<double>(),
              error.square().mean().item<double>(), 1e-12);
  EXPECT_NEAR(prediction_error(Prediction::noise, off, noise, alpha).item<double>(),
              (alpha * error).square().mean().item<double>(), 1e-12);
}

TEST(Prediction, HasItsName) {
  EXPECT_EQ(find_prediction("velocity", "prediction"), Prediction::velocity);
  EXPECT_THROW(find_prediction("speed", "prediction"), UsageError);
}

}  // namespace
}  // namespace cogwheel::tasks::images
