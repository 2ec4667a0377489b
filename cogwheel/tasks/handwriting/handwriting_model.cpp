#include "cogwheel/tasks/handwriting/handwriting_model.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include <limits>

#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/ops/layers/soft_window.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/tasks/handwriting/mixture_density.h"

namespace cogwheel::tasks::handwriting {
namespace {

// A pen makes about a dozen points for a character, so that a window begins by moving a twelfth of one.
constexpr double first_advance = 1.0 / 12;

}  // namespace

HandwritingImpl::HandwritingImpl(const HandwritingOptions& options) : options_(options) {
  check(options);
  const std::int64_t read = 3 + (has_window() ? options.vocabulary : 0);
  const auto layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    layers_.emplace_back(nn::RecurrentNetworkOptions{
        .cell = nn::RecurrentCell::lstm, .inputs = read + (layer == 0 ? 0 : options.width), .width = options.width});
    layers->push_back(layers_.back());
  }
  if (has_window()) {
    window_weight_ = nn::new_parameter(*this, "window_weight", {3 * options.curves, options.width});
    window_bias_ = nn::new_parameter(*this, "window_bias", {3 * options.curves});
  }
  output_ =
      register_module("output", nn::Linear(options.layers * options.width, mixture_width(options.mixtures), true));
}

void HandwritingImpl::initialize(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const nn::WeightInitializer initializer(seed);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->initialize(initializer, "layers." + std::to_string(layer));
  output_->initialize(initializer, "output", 1 / std::sqrt(static_cast<double>(options_.layers * options_.width)));
  if (!has_window()) return;
  initializer.normal(window_weight_, "window_weight", 1 / std::sqrt(static_cast<double>(options_.width)));
  const std::int64_t curves = options_.curves;
  window_bias_.narrow(0, 0, curves).fill_(-std::log(static_cast<double>(curves)));
  window_bias_.narrow(0, curves, curves).zero_();
  window_bias_.narrow(0, 2 * curves, curves).fill_(std::log(first_advance));
}

WrittenText HandwritingImpl::text(const at::Tensor& characters, const at::Tensor& lengths) const {
  if (!has_window()) return {};
  const at::Tensor here = nn::to_device(characters, window_weight_.device());
  return {at::one_hot(here, options_.vocabulary).to(window_weight_.scalar_type()),
          nn::to_device(lengths, here.device())};
}

PenState HandwritingImpl::first_state(std::int64_t batch) const {
  PenState state{.layers = std::vector<nn::CellStates>(layers_.size())};
  if (has_window()) {
    state.kappa = at::zeros({batch, options_.curves}, window_weight_.options());
    state.window = at::zeros({batch, options_.vocabulary}, window_weight_.options());
  }
  return state;
}

HandwritingImpl::Predicted HandwritingImpl::forward(const at::Tensor& given, const WrittenText& text, PenState& state,
                                                    const nn::Dropout& dropout) {
  const at::Tensor points = nn::to_device(given, parameters().front().device());
  Predicted predicted;
  std::vector<at::Tensor> hidden;
  at::Tensor read = points;
  if (has_window()) {
    // What the first layer reads depends on what it has made: it goes point by point, the others do not.
    const nn::RecurrentSteps step = layers_[0]->steps();
    const nn::CollectedWeight of_window(window_weight_, window_bias_);
    std::vector<at::Tensor> states, windows, weights;
    for (std::int64_t t = 0; t < points.size(1); ++t) {
      states.push_back(step(at::cat({points.select(1, t), state.window}, -1), state.layers[0]));
      const auto curves = of_window.product(states.back()).to(points.scalar_type()).exp().chunk(3, -1);
      state.kappa = state.kappa + curves[2];
      // A β below the numbers would be 0, which is no curve.
      const at::Tensor beta = curves[1].clamp_min(static_cast<double>(std::numeric_limits<float>::min()));
      const auto [window, weight] = ops::soft_window(curves[0], beta, state.kappa, text.characters, text.lengths);
      state.window = window;
      windows.push_back(window);
      weights.push_back(weight);
    }
    hidden.push_back(at::stack(states, 1));
    read = at::cat({points, at::stack(windows, 1)}, -1);
    predicted.window = at::stack(weights, 1);
  }
  for (std::size_t layer = hidden.size(); layer < layers_.size(); ++layer) {
    const at::Tensor input =
        layer == 0 ? read : at::cat({read, dropout.part(layer)(hidden.back().to(read.scalar_type()))}, -1);
    const auto [output, last] = layers_[layer]->forward(input, {}, state.layers[layer]);
    state.layers[layer] = last;
    hidden.push_back(output);
  }
  for (at::Tensor& each : hidden) each = each.to(points.scalar_type());
  predicted.y = output_(at::cat(hidden, -1));
  return predicted;
}

at::Tensor HandwritingImpl::loss(const at::Tensor& points, const at::Tensor& lengths, const WrittenText& text,
                                 const nn::Dropout& dropout) {
  const std::int64_t predictions = points.size(1) - 1;
  PenState state = first_state(points.size(0));
  const at::Tensor y = forward(points.narrow(1, 0, predictions), text, state, dropout).y;
  const at::Tensor there = at::arange(predictions, lengths.options()).unsqueeze(0) < (lengths - 1).unsqueeze(1);
  const at::Tensor places = nn::to_device(there.flatten().nonzero().squeeze(1), y.device());
  const at::Tensor targets = nn::to_device(points.narrow(1, 1, predictions).flatten(0, 1), y.device());
  return negative_log_likelihood(y.flatten(0, 1).index_select(0, places), targets.index_select(0, places)).mean();
}

const runs::ModelEntry& handwriting_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<HandwritingImpl, HandwritingOptions>("handwriting");
  return entry;
}

}  // namespace cogwheel::tasks::handwriting
