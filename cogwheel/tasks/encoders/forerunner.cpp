#include "cogwheel/tasks/encoders/forerunner.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::tasks::encoders {

at::Tensor computed(const at::Tensor& x) { return x.to(ops::computed_type(x)); }
double deviation_of(std::int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }

at::Tensor seen_tokens(const nn::ForwardContext& context, const at::Tensor& like) {
  if (!context.lengths) return {};
  const at::Tensor lengths = nn::to_device(*context.lengths, like.device());
  return (at::arange(like.size(1), lengths.options()) < lengths.unsqueeze(1)).unsqueeze(2).to(like.scalar_type());
}

Forerunner::Forerunner(const ForerunnerOptions& options, const char* what, std::int64_t read_width)
    : what_(what), context_(options.context) {
  embedding_ = nn::new_parameter(*this, "embedding", {options.vocabulary, options.width});
  hidden_ = register_module("hidden", nn::Linear(read_width, options.feed_forward_width(), true));
  classifier_ = register_module("classifier", nn::Linear(options.feed_forward_width(), options.classes, true));
}

void Forerunner::initialize_ends(const nn::WeightInitializer& initializer) {
  initializer.normal(embedding_, "embedding", 1);
  hidden_->initialize(initializer, "hidden", deviation_of(hidden_->weight().size(1)));
  classifier_->initialize(initializer, "classifier", deviation_of(classifier_->weight().size(1)));
}

at::Tensor Forerunner::embed(const at::Tensor& tokens, const nn::Dropout& dropout) const {
  if (tokens.dim() != 2 || tokens.size(1) < 1 || tokens.size(1) > context_)
    throw UsageError(expected_got(std::string(what_) + ": tokens", "[batch, 1 to " + std::to_string(context_) + "]",
                                  shape_text(tokens.sizes())));
  return dropout.part(of_embedding)(at::embedding(embedding_, nn::to_device(tokens, device())));
}

at::Tensor Forerunner::read_classes(const at::Tensor& x, const nn::Dropout& dropout) {
  const at::Tensor units = computed(hidden_(dropout.part(of_reading)(computed(x)))).relu();
  return computed(classifier_(units));
}

}  // namespace cogwheel::tasks::encoders
