#include "cogwheel/tasks/averages/averager.h"

#include <torch/types.h>

#include "cogwheel/nn/options/layer_mechanisms.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::averages {

void check(const AveragerOptions& options) {
  expect_within("model.context", options.context, runs::context_range);
  expect_within("model.width", options.width, Range<std::int64_t>{1, 1 << 20});
  expect_within("model.dropout", options.dropout, runs::dropout_range);
  mechanism_text(options, "model.mechanism");
}

std::vector<runs::ConfigField> config_fields(AveragerOptions& options) {
  return {{"model.mechanism", &options.mechanism}, {"model.context", &options.context},
          {"model.layers", &options.layers},       {"model.heads", &options.heads},
          {"model.width", &options.width},         {"model.dropout", &options.dropout}};
}

std::int64_t balanced_width(const AveragerOptions& options) { return options.width; }
void set_balanced_width(AveragerOptions& options, std::int64_t width) { options.width = width; }
std::int64_t output_heads(const AveragerOptions& options) { return options.heads; }
nn::MechanismText mechanism_text(const AveragerOptions& options, std::string_view what) {
  return nn::text_of(options.mechanism, what);
}

AveragerImpl::AveragerImpl(const AveragerOptions& options)
    : in_(register_module("in", nn::Linear(options.context, options.width, true))),
      out_(register_module("out", nn::Linear(options.width, 1, true))) {}

at::Tensor AveragerImpl::forward(const at::Tensor& numbers) { return out_(in_(numbers).tanh()).squeeze(-1); }

void AveragerImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  in_->initialize(initializer, "in", 0.1);
  out_->initialize(initializer, "out", 0.1);
}

const runs::ModelEntry& averager_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<AveragerImpl, AveragerOptions>(
      "averager",
      [](const runs::RunConfig& config) {
        return runs::named_pass(Averager(config.model.as<AveragerOptions>()),
                                [](Averager& model, const runs::PassInputs& inputs, const nn::ForwardContext&) {
                                  return model->forward(runs::needed_input(inputs, "numbers"));
                                });
      },
      {{"numbers"}});
  return entry;
}

}  // namespace cogwheel::tasks::averages
