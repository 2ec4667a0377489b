#include "cogwheel/nn/weights/collected_weight.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/types.h>

#include <mutex>
#include <utility>
#include <vector>

#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/ops/layers/matrix_product.h"
#include "cogwheel/ops/support/make_node.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::nn {

struct CollectedWeight::Rows {
  std::mutex access;
  int pass = -1;  // the backward pass that they belong to: what one that failed has left is dropped
  std::vector<at::Tensor> inputs, gradients;

  void add(const at::Tensor& input, const at::Tensor& gradient) {
    const std::lock_guard<std::mutex> lock(access);
    begin(torch::autograd::get_current_graph_task_id());
    inputs.push_back(input);
    gradients.push_back(gradient);
  }
  // All of this pass, which are then no longer kept.
  std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> take() {
    const std::lock_guard<std::mutex> lock(access);
    begin(torch::autograd::get_current_graph_task_id());
    return {std::exchange(inputs, {}), std::exchange(gradients, {})};
  }

 private:
  void begin(int now) {
    if (pass == now) return;
    pass = now;
    inputs.clear();
    gradients.clear();
  }
};

namespace {

class CollectingNode final : public torch::autograd::Node {
 public:
  explicit CollectingNode(std::shared_ptr<CollectedWeight::Rows> rows) : rows_(std::move(rows)) {}
  std::string name() const override { return "CollectedWeightBackward"; }

  // Steps give no gradients for the weight and the bias, unless they are differentiated twice, but their rows.
  ops::variable_list apply(ops::variable_list&& gradients) override {
    ops::variable_list result = std::move(gradients);
    result.resize(2);  // without a bias one gradient comes
    const auto [inputs, of_products] = rows_->take();
    if (inputs.empty()) return result;
    const at::Tensor left = at::cat(of_products), right = at::cat(inputs);
    const at::Tensor product = ops::matrix_product(left.t(), right.t(), {});
    result[0] = result[0].defined() ? result[0] + product : product;
    if (task_should_compute_output(1)) result[1] = result[1].defined() ? result[1] + left.sum(0) : left.sum(0);
    return result;
  }

 private:
  std::shared_ptr<CollectedWeight::Rows> rows_;
};

}  // namespace

CollectedWeight::CollectedWeight(const at::Tensor& weight, const at::Tensor& bias) {
  const bool narrow = BFloat16Products::enabled() && weight.scalar_type() == at::kFloat;
  const auto rounded = [&](const at::Tensor& tensor) { return narrow ? tensor.to(at::kBFloat16) : tensor; };
  const at::Tensor of_products = rounded(weight), bias_of_products = bias.defined() ? rounded(bias) : bias;
  weight_ = of_products.detach();
  if (bias.defined()) bias_ = bias_of_products.detach();
  const ops::variable_list inputs{of_products, bias_of_products};
  if (!ops::needs_record(inputs)) return;
  rows_ = std::make_shared<Rows>();
  collected_ = of_products.detach();
  if (bias.defined()) collected_bias_ = bias_of_products.detach();
  const auto node = ops::make_node<CollectingNode>(rows_);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(collected_, node);
  if (bias.defined()) torch::autograd::set_history(collected_bias_, node);
}

at::Tensor CollectedWeight::product(const at::Tensor& x) const {
  if (x.scalar_type() != weight_.scalar_type()) return product(x.to(weight_.scalar_type()));
  const ops::variable_list inputs{x, collected_, collected_bias_};
  if (!ops::needs_record(inputs)) return ops::matrix_product(x, weight_, ops::or_none(bias_));
  at::Tensor result;
  {
    const at::NoGradGuard no_grad;
    result = ops::matrix_product(x, weight_, ops::or_none(bias_));
  }
  ops::record_saving("CollectedProductBackward", inputs, {result},
                     {.inputs = inputs, .outputs = {}, .constants = {weight_}},
                     [rows = rows_](const ops::variable_list& given, const ops::variable_list& kept,
                                    const ops::variable_list& gradients) {
                       const at::Tensor& gradient = gradients[0];
                       const bool again = at::GradMode::is_enabled(), wanted = given[1].defined();
                       ops::variable_list found(3);
                       if (given[0].requires_grad())
                         found[0] = ops::matrix_product(gradient, (again && wanted ? given[1] : kept[0]).t(), {});
                       if (!wanted) return found;
                       if (!again) {
                         rows->add(given[0], gradient);
                         return found;
                       }
                       found[1] = ops::matrix_product(gradient.t(), given[0].t(), {});
                       if (given[2].defined()) found[2] = gradient.sum(0);
                       return found;
                     });
  return result;
}

}  // namespace cogwheel::nn
