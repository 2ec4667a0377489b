// Samplers around noise that is known exactly: of Gaussians and their mixtures.
#include "cogwheel/tasks/images/diffusion/sampler.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::images {
namespace {

at::Tensor numbers(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

// Data of independent normal numbers: mean and variance of each dimension.
struct Gaussian {
  at::Tensor mean, variance;  // [D]

  at::Tensor variance_at(const NoiseSchedule& schedule, double t) const {
    return std::pow(schedule.alpha(t), 2) * variance + std::pow(schedule.sigma(t), 2);
  }
  NoisePrediction noise(const NoiseSchedule& schedule) const {
    return [this, schedule](const at::Tensor& x, double t) {
      return schedule.sigma(t) * (x - schedule.alpha(t) * mean) / variance_at(schedule, t);
    };
  }
  // Where the probability flow takes x from time t to s.
  at::Tensor flow(const NoiseSchedule& schedule, const at::Tensor& x, double t, double s) const {
    return schedule.alpha(s) * mean +
           (variance_at(schedule, s) / variance_at(schedule, t)).sqrt() * (x - schedule.alpha(t) * mean);
  }
};

// A mixture of two in two dimensions, far enough apart to tell which one a sample is of.
struct Mixture {
  std::vector<double> weight{0.3, 0.7};
  std::vector<at::Tensor> mean{numbers({-2, 1}), numbers({1.5, -1})};
  std::vector<at::Tensor> covariance{numbers({0.3, 0.1, 0.1, 0.2}).view({2, 2}),
                                     numbers({0.15, -0.05, -0.05, 0.4}).view({2, 2})};

  // log w_i + log N(x; α m_i, α² C_i + σ²), [B], and the gradient of the second, [B, 2].
  std::pair<at::Tensor, at::Tensor> part(std::size_t i, const at::Tensor& x, double alpha, double sigma) const {
    const at::Tensor wide = alpha * alpha * covariance[i] + sigma * sigma * at::eye(2, at::kDouble);
    const at::Tensor offset = x - alpha * mean[i], scaled = at::matmul(offset, at::linalg_inv(wide));
    const double log_norm = std::log(weight[i]) - 0.5 * std::log(at::linalg_det(wide).item<double>());
    return {log_norm - 0.5 * (offset * scaled).sum(1), -scaled};
  }
  at::Tensor shares(const at::Tensor& x, double alpha, double sigma) const {
    return at::softmax(at::stack({part(0, x, alpha, sigma).first, part(1, x, alpha, sigma).first}, 1), 1);
  }
  NoisePrediction noise(const NoiseSchedule& schedule) const {
    return [this, schedule](const at::Tensor& images, double t) {
      const double alpha = schedule.alpha(t), sigma = schedule.sigma(t);
      const at::Tensor x = images.reshape({-1, 2}), share = shares(x, alpha, sigma);
      return (-sigma * (share.narrow(1, 0, 1) * part(0, x, alpha, sigma).second +
                        share.narrow(1, 1, 1) * part(1, x, alpha, sigma).second))
          .view_as(images);
    };
  }
};

struct Case {
  const char* name;
  runs::SamplerKind kind;
  NoiseSchedule schedule;
  std::int64_t steps;
  double eta = 0;
};

std::vector<Case> cases() {
  const NoiseSchedule song = NoiseSchedule::continuous(), ddpm = NoiseSchedule::linear();
  return {{"DDPM, every step", runs::SamplerKind::ddpm, ddpm, 1000},
          {"DDPM, 250 of 1,000 steps", runs::SamplerKind::ddpm, ddpm, 250},
          {"DDIM", runs::SamplerKind::ddim, ddpm, 200},
          {"DDIM, half of the noise, continuous", runs::SamplerKind::ddim, song, 400, 0.5},
          {"Euler-Maruyama", runs::SamplerKind::euler_sde, song, 1000},
          {"Euler-Maruyama on steps", runs::SamplerKind::euler_sde, ddpm, 1000},
          {"Euler on the flow", runs::SamplerKind::euler_ode, song, 1000},
          {"DPM-Solver++", runs::SamplerKind::dpm_solver, song, 80},
          {"DPM-Solver++ on steps", runs::SamplerKind::dpm_solver, NoiseSchedule::scaled_linear(), 80}};
}

TEST(Sampler, DrawsFromAMixtureOfKnownScore) {
  const Mixture mixture;
  constexpr std::int64_t samples = 4000;
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Noise noise(3);
    // Noise is drawn image by image: a few images of many samples.
    const at::Tensor start = noise.normal(at::empty({20, samples / 20, 2}, at::kDouble), 0);
    const at::Tensor found = sample_diffusion(each.schedule, mixture.noise(each.schedule), start, noise,
                                              {.kind = each.kind, .steps = each.steps, .eta = each.eta})
                                 .view({samples, 2});
    ASSERT_TRUE(found.isfinite().all().item<bool>());
    const at::Tensor first = mixture.shares(found, 1, 0).select(1, 0) > 0.5;
    const double share = first.to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, 0.3, 4 * std::sqrt(0.3 * 0.7 / samples));
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const at::Tensor mine = found.index_select(0, (first == (i == 0)).nonzero().squeeze(1));
      const double root = std::sqrt(static_cast<double>(mine.size(0)));
      const at::Tensor offset = mine - mine.mean(0);
      const at::Tensor covariance = at::matmul(offset.t(), offset) / (mine.size(0) - 1);
      for (std::int64_t a = 0; a < 2; ++a) {
        const auto variance = [&](std::int64_t b, std::int64_t c) {
          return mixture.covariance[i][b][c].item<double>();
        };
        EXPECT_NEAR(mine.mean(0)[a].item<double>(), mixture.mean[i][a].item<double>(),
                    4 * std::sqrt(variance(a, a)) / root);
        for (std::int64_t b = 0; b <= a; ++b)
          EXPECT_NEAR(covariance[a][b].item<double>(), variance(a, b),
                      4 * std::sqrt(variance(a, a) * variance(b, b) + variance(a, b) * variance(a, b)) / root);
      }
    }
  }
}

// Errors against the exact flow, of so many steps.
double error_of(runs::SamplerKind kind, std::int64_t steps) {
  const Gaussian data{numbers({0.5, -1, 0, 2}), numbers({0.01, 0.25, 1, 4})};
  const NoiseSchedule schedule = NoiseSchedule::continuous();
  const at::Tensor start = Noise(5).normal(at::empty({20, 4}, at::kDouble), 0);
  const at::Tensor found = sample_diffusion(schedule, data.noise(schedule), start, Noise(5),
                                            {.kind = kind, .steps = steps, .denoise = false});
  return (found - data.flow(schedule, start, 1, schedule.first_time())).square().mean().sqrt().item<double>();
}

TEST(Sampler, ErrorsFallWithTheOrderOfTheMethod) {
  const auto order = [](runs::SamplerKind kind) { return std::log2(error_of(kind, 80) / error_of(kind, 160)); };
  EXPECT_GE(order(runs::SamplerKind::ddim), 0.9);
  EXPECT_GE(order(runs::SamplerKind::euler_ode), 0.9);
  EXPECT_GE(order(runs::SamplerKind::dpm_solver), 1.8);
}

TEST(Sampler, TwentyStepsOfTheSolverDoForASpectrumLikeThatOfImages) {
  // Variances of principal components that fall as those of natural images do, over four powers of ten.
  std::vector<double> variances;
  for (int i = 0; i < 400; ++i) variances.push_back(20 / std::pow(1 + i, 1.5));
  const Gaussian data{at::zeros({400}, at::kDouble), numbers(variances)};
  for (const NoiseSchedule& schedule : {NoiseSchedule::continuous(), NoiseSchedule::linear()}) {
    const at::Tensor start = Noise(6).normal(at::empty({30, 400}, at::kDouble), 0);
    const at::Tensor found =
        sample_diffusion(schedule, data.noise(schedule), start, Noise(6), {.steps = 20, .denoise = false});
    const at::Tensor error = found - data.flow(schedule, start, 1, schedule.first_time());
    EXPECT_LE(error.square().mean().sqrt().item<double>(), 0.01);
  }
}

TEST(Sampler, AllStepsOfDdimWithAllOfTheNoiseAreDdpm) {
  const NoiseSchedule schedule = NoiseSchedule::linear(50, 1e-3, 0.2);
  const Mixture mixture;
  const NoisePrediction predict = mixture.noise(schedule);
  const Noise noise(9);
  const at::Tensor start = noise.normal(at::empty({10, 2}, at::kDouble), 0);
  const at::Tensor found =
      sample_diffusion(schedule, predict, start, noise, {.kind = runs::SamplerKind::ddim, .steps = 50, .eta = 1});
  EXPECT_TRUE(
      sample_diffusion(schedule, predict, start, noise, {.kind = runs::SamplerKind::ddpm, .steps = 50}).equal(found));
  // As Ho et al. write it, in their β_n and ᾱ_n.
  at::Tensor x = start;
  for (int n = 50; n >= 1; --n) {
    const double beta = 1e-3 + (0.2 - 1e-3) * (n - 1) / 49;
    const double all = std::pow(schedule.alpha(n / 50.0), 2), before = std::pow(schedule.alpha((n - 1) / 50.0), 2);
    const at::Tensor mean = (x - beta / std::sqrt(1 - all) * predict(x, n / 50.0)) / std::sqrt(1 - beta);
    x = n == 1 ? mean : mean + std::sqrt(beta * (1 - before) / (1 - all)) * noise.normal(x, 51 - n);
  }
  EXPECT_LE((found - x).abs().max().item<double>(), 1e-10);
}

TEST(Sampler, TimesGoFromNoiseToData) {
  const NoiseSchedule song = NoiseSchedule::continuous(), ddpm = NoiseSchedule::linear();
  for (const runs::SamplerKind kind : {runs::SamplerKind::ddpm, runs::SamplerKind::ddim, runs::SamplerKind::euler_sde,
                                       runs::SamplerKind::euler_ode, runs::SamplerKind::dpm_solver})
    for (const NoiseSchedule& schedule : {song, ddpm})
      for (const std::int64_t steps : {1, 7, 1000}) {
        const std::vector<double> times = sampling_times(schedule, {.kind = kind, .steps = steps});
        ASSERT_EQ(std::ssize(times), steps + 1);
        EXPECT_EQ(times.front(), 1);
        EXPECT_LE(times.back(), 1e-3);
        for (std::size_t i = 1; i < times.size(); ++i) EXPECT_LT(times[i], times[i - 1]);
      }
  const std::vector<double> even = sampling_times(ddpm, {.kind = runs::SamplerKind::ddim, .steps = 4});
  EXPECT_EQ(even, (std::vector<double>{1, 0.75, 0.5, 0.25, 0}));
}

TEST(Sampler, SaysWhatIsWrong) {
  const NoiseSchedule schedule = NoiseSchedule::linear(10, 1e-3, 0.1);
  const auto times = [&](const runs::SamplerOptions& options) { return sampling_times(schedule, options); };
  EXPECT_THROW(times({.steps = 0}), UsageError);
  EXPECT_THROW(times({.kind = runs::SamplerKind::ddpm, .steps = 11}), UsageError);
  EXPECT_THROW(times({.eta = 1.5}), UsageError);
  EXPECT_THROW(times({.last_time = 1}), UsageError);
  EXPECT_THROW(times({.last_time = std::numeric_limits<double>::quiet_NaN()}), UsageError);
  EXPECT_THROW(runs::sampler_kind("dpm", "--sampler"), UsageError);
  EXPECT_EQ(runs::sampler_kind("ddim", "--sampler"), runs::SamplerKind::ddim);
}

}  // namespace
}  // namespace cogwheel::tasks::images
