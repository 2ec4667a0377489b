#include "cogwheel/runs/sampler_options.h"

#include <algorithm>
#include <array>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::runs {
namespace {

constexpr std::array<std::string_view, 5> names{"ddpm", "ddim", "euler_sde", "euler_ode", "dpm_solver"};

}  // namespace

std::span<const std::string_view> sampler_names() { return names; }

SamplerKind sampler_kind(std::string_view name, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw UsageError(
        expected_got(std::string(what), expected_names(name, {names.begin(), names.end()}), std::string(name)));
  return static_cast<SamplerKind>(found - names.begin());
}

}  // namespace cogwheel::runs
