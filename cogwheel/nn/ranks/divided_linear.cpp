#include "cogwheel/nn/ranks/divided_linear.h"

#include <torch/types.h>

#include "cogwheel/nn/weights/matrix_product.h"

namespace cogwheel::nn {

std::vector<DividedParameter> divided_outputs(const LinearImpl& linear, const std::vector<std::int64_t>& parts) {
  std::vector<DividedParameter> divided{{linear.weight(), 0, parts}};
  if (linear.bias().defined()) divided.push_back({linear.bias(), 0, parts});
  return divided;
}

DividedParameter divided_inputs(const LinearImpl& linear) { return {linear.weight(), 1, {linear.weight().size(1)}}; }

at::Tensor sum_of_own(const LinearImpl& linear, const at::Tensor& own, const SharedHeads& ranks,
                      const std::string& what) {
  const at::Tensor sum = ranks.sum(matrix_product(own, linear.weight()), what);
  return linear.bias().defined() ? sum + linear.bias().to(sum.scalar_type()) : sum;
}

}  // namespace cogwheel::nn
