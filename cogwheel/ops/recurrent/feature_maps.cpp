#include "cogwheel/ops/recurrent/feature_maps.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/ops/recurrent/normalized_sums.h"
#include "cogwheel/ops/recurrent/token_rows.h"

namespace cogwheel::ops {
namespace {

struct FeatureMap {
  std::string_view name;
  at::Tensor (*of)(const at::Tensor& x, const at::Tensor& projection);
};

at::Tensor unit(const at::Tensor& x, const at::Tensor&) {
  const at::Tensor length = at::linalg_vector_norm(x, 2, {-1}, true);
  const at::Tensor none = length.eq(0);  // a vector without a direction stays 0
  return at::cat({at::ones_like(length), (x / length.masked_fill(none, 1)).masked_fill(none, 0)}, -1);
}

at::Tensor random_fourier(const at::Tensor& x, const at::Tensor& projection) {
  const at::Tensor angles = projected_rows(x, projection.to(x.scalar_type()));
  const double features = static_cast<double>(projection.sym_size(2).guard_int(__FILE__, __LINE__));
  return at::cat({angles.sin(), angles.cos()}, -1) / std::sqrt(features);
}

const FeatureMap maps[] = {
    {"identity", [](const at::Tensor& x, const at::Tensor&) { return x; }},
    {"elu_plus_one", [](const at::Tensor& x, const at::Tensor&) { return elu_plus_one(x); }},
    {"relu", [](const at::Tensor& x, const at::Tensor&) { return x.relu(); }},
    {"squared_relu", [](const at::Tensor& x, const at::Tensor&) { return x.relu().square(); }},
    {"exp", [](const at::Tensor& x, const at::Tensor&) { return x.exp(); }},
    {"unit", unit},
    {"random_fourier", random_fourier},
};

}  // namespace

std::vector<std::string> feature_map_names() {
  std::vector<std::string> names;
  for (const FeatureMap& map : maps) names.emplace_back(map.name);
  return names;
}

at::Tensor feature_map(std::string_view name, const at::Tensor& x, const std::optional<at::Tensor>& projection) {
  const auto* const map =
      std::find_if(std::begin(maps), std::end(maps), [&](const FeatureMap& each) { return each.name == name; });
  return map->of(x, projection.value_or(at::Tensor()));
}

}  // namespace cogwheel::ops
