// The feature maps of keys and queries of linear attention.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::ops {

// identity, elu_plus_one, relu, squared_relu, exp, unit and random_fourier.
std::vector<std::string> feature_map_names();

// φ(x), x [B, H, N, D]: as wide, but [1, x/|x|] for unit, which normalised is the mechanism norm, and 2 R wide for
// random_fourier, [sin(x W), cos(x W)] / √R with W the projection [H, D, R], which only that map has (Peng et al.,
// 2021, for keys and queries of length 1). The name must be one of those above.
at::Tensor feature_map(std::string_view name, const at::Tensor& x, const std::optional<at::Tensor>& projection);

}  // namespace cogwheel::ops
