#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::runs {

CommonOptions common(ModelOptions& options) { return options.held_->shared(); }
ConstCommonOptions common(const ModelOptions& options) {
  const CommonOptions held = options.held_->shared();
  return {held.mechanism, held.vocabulary, held.context, held.layers, held.heads, held.width, held.dropout};
}
void check(const ModelOptions& options) { options.held_->expect_valid(); }
std::vector<ConfigField> config_fields(ModelOptions& options) { return options.held_->fields(); }
void stand_in_for_data(ModelOptions& options) { options.held_->stand_in(); }
void set_context_that_follows(ModelOptions& options) { options.held_->set_context(); }
std::int64_t balanced_width(const ModelOptions& options) { return options.held_->balanced(); }
void set_balanced_width(ModelOptions& options, std::int64_t width) { options.held_->balance(width); }
bool balances_feed_forward(const ModelOptions& options) { return options.held_->feeds_forward(); }
bool layers_have_heads(const ModelOptions& options) { return options.held_->of_heads(); }
std::int64_t output_heads(const ModelOptions& options) { return options.held_->heads(); }
nn::MechanismText mechanism_text(const ModelOptions& options, std::string_view what) {
  return options.held_->text(what);
}

}  // namespace cogwheel::runs
