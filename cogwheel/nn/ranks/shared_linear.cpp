#include "cogwheel/nn/ranks/shared_linear.h"

#include <torch/types.h>

#include "cogwheel/nn/weights/matrix_product.h"

namespace cogwheel::nn {

at::Tensor own_outputs(const LinearImpl& linear, const at::Tensor& x, const SharedHeads& ranks,
                       const std::vector<std::int64_t>& parts) {
  const auto own = [&](const at::Tensor& all) {
    if (!all.defined()) return all;
    std::vector<at::Tensor> shares;
    for (const at::Tensor& part : all.split_with_sizes(parts, 0)) shares.push_back(ranks.own(part, 0));
    return at::cat(shares, 0);
  };
  return matrix_product(x, own(linear.weight()), own(linear.bias()));
}

at::Tensor sum_of_own(const LinearImpl& linear, const at::Tensor& own, const SharedHeads& ranks,
                      const std::string& what) {
  const at::Tensor sum = ranks.sum(matrix_product(own, ranks.own(linear.weight(), 1)), what);
  return linear.bias().defined() ? sum + linear.bias().to(sum.scalar_type()) : sum;
}

}  // namespace cogwheel::nn
