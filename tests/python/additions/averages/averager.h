// Two linear maps with tanh between them.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/nn/hooks/hooks.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::averages {

struct AveragerOptions {
  static constexpr bool layers_have_heads = false;

  std::string mechanism = "softmax";
  std::int64_t context = 8;  // numbers
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t width = 16;
  double dropout = 0;

  bool operator==(const AveragerOptions&) const = default;
};

void check(const AveragerOptions& options);
std::vector<runs::ConfigField> config_fields(AveragerOptions& options);
std::int64_t balanced_width(const AveragerOptions& options);
void set_balanced_width(AveragerOptions& options, std::int64_t width);
std::int64_t output_heads(const AveragerOptions& options);
nn::MechanismText mechanism_text(const AveragerOptions& options, std::string_view what);
const runs::ModelEntry& averager_entry();
inline const runs::ModelEntry& model_entry(const AveragerOptions&) { return averager_entry(); }

class AveragerImpl : public torch::nn::Module {
 public:
  explicit AveragerImpl(const AveragerOptions& options);
  at::Tensor forward(const at::Tensor& numbers);  // [B, context] → [B]
  void initialize(std::uint64_t seed);
  std::vector<nn::HookPoint> hook_points() const { return {}; }

 private:
  nn::Linear in_, out_;
};
TORCH_MODULE(Averager);

}  // namespace cogwheel::tasks::averages
