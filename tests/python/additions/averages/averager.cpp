#include "cogwheel/tasks/averages/averager.h"

#include <torch/types.h>

#include "cogwheel/nn/layer_mechanisms.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel {

void check(const AveragerOptions& options) {
  expect_within("model.context", options.context, context_range);
  expect_within("model.width", options.width, Range<std::int64_t>{1, 1 << 20});
  expect_within("model.dropout", options.dropout, dropout_range);
  mechanism_text(options, "model.mechanism");
}

std::vector<ConfigField> config_fields(AveragerOptions& options) {
  return {{"model.mechanism", &options.mechanism}, {"model.context", &options.context},
          {"model.layers", &options.layers},       {"model.heads", &options.heads},
          {"model.width", &options.width},         {"model.dropout", &options.dropout}};
}

std::int64_t balanced_width(const AveragerOptions& options) { return options.width; }
void set_balanced_width(AveragerOptions& options, std::int64_t width) { options.width = width; }
std::int64_t output_heads(const AveragerOptions& options) { return options.heads; }
MechanismText mechanism_text(const AveragerOptions& options, std::string_view what) {
  return text_of(options.mechanism, what);
}

AveragerImpl::AveragerImpl(const AveragerOptions& options)
    : in_(register_module("in", Linear(options.context, options.width, true))),
      out_(register_module("out", Linear(options.width, 1, true))) {}

at::Tensor AveragerImpl::forward(const at::Tensor& numbers) { return out_(in_(numbers).tanh()).squeeze(-1); }

void AveragerImpl::initialize(std::uint64_t seed) {
  const WeightInitializer initializer(seed);
  in_->initialize(initializer, "in", 0.1);
  out_->initialize(initializer, "out", 0.1);
}

const ModelEntry& averager_entry() {
  static const ModelEntry entry = model_entry_of<AveragerImpl, AveragerOptions>(
      "averager",
      [](const RunConfig& config) {
        return named_pass(Averager(config.model.as<AveragerOptions>()),
                          [](Averager& model, const PassInputs& inputs, const ForwardContext&) {
                            return model->forward(needed_input(inputs, "numbers"));
                          });
      },
      {{"numbers"}});
  return entry;
}

}  // namespace cogwheel
