#include "cogwheel/interpret/value_statistics.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interpret {

ValueStatistics value_statistics(const at::Tensor& values) {
  const torch::NoGradGuard no_gradient;
  if (values.dim() != 2 || values.size(0) < 2)
    throw UsageError(expected_got("values", "[points, width], two points or more", shape_text(values.sizes())));
  const at::Tensor points = values.detach().to(at::kCPU, at::kDouble);
  if (!points.isfinite().all().item<bool>()) throw UsageError(expected_got("values", "finite numbers", "others"));
  const auto count = static_cast<double>(points.size(0));
  const at::Tensor mean = points.mean(0), centred = points - mean;
  ValueStatistics found;
  found.bias = mean.norm().item<double>() / std::sqrt(points.square().sum(1).mean().item<double>());
  const auto [spectrum, directions] = at::linalg_eigh(centred.t().mm(centred) / count);
  const at::Tensor largest = spectrum.max(), share = spectrum.clamp_min(0) / spectrum.clamp_min(0).sum();
  found.effective_rank = at::exp(-at::xlogy(share, share).sum()).item<double>();
  found.largest_share = share.max().item<double>();
  const at::Tensor wide =
      spectrum > largest * static_cast<double>(points.size(1)) * std::numeric_limits<double>::epsilon();
  found.directions = wide.sum().item<std::int64_t>();
  found.kurtosis = found.kurtosis_z = std::numeric_limits<double>::quiet_NaN();
  const auto r = static_cast<double>(found.directions);
  if (found.directions == 0 || count <= 2 * r) return found;
  const at::Tensor scaled =
      centred.mm(directions.index({at::indexing::Slice(), wide})).square() / spectrum.index({wide});
  const double b = scaled.sum(1).square().mean().item<double>(), normal = r * (r + 2);
  found.kurtosis = b / normal;
  found.kurtosis_z = (b - normal * (count - 1) / (count + 1)) / std::sqrt(8 * normal / count);
  return found;
}

}  // namespace cogwheel::interpret
