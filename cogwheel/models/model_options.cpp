#include "cogwheel/models/model_options.h"

namespace cogwheel {
namespace {

template <class Common, class Options>
Common common_of(Options& options) {
  return std::visit(
      [](auto& model) -> Common {
        return {model.mechanism, model.vocabulary, model.context, model.layers,
                model.heads,     model.width,      model.dropout};
      },
      options);
}

}  // namespace

CommonOptions common(ModelOptions& options) { return common_of<CommonOptions>(options); }
ConstCommonOptions common(const ModelOptions& options) { return common_of<ConstCommonOptions>(options); }

void check(const ModelOptions& options) {
  std::visit([](const auto& model) { check(model); }, options);
}

void stand_in_for_data(ModelOptions& options) {
  std::visit(
      [](auto& model) {
        constexpr bool may_be_none = requires { model.condition_width; };
        if (!may_be_none && model.vocabulary == 0) model.vocabulary = 1;
        if constexpr (requires { model.image_size; }) {
          if (model.image_size != 0 && model.channels != 0) return;
          model.image_size = model.image_size == 0 ? model.patch : model.image_size;
          model.channels = 1;
          model.context = 0;
        }
      },
      options);
}

std::int64_t balanced_width(const ModelOptions& options) {
  return std::visit([](const auto& model) { return balanced_width(model); }, options);
}

void set_balanced_width(ModelOptions& options, std::int64_t width) {
  std::visit([&](auto& model) { set_balanced_width(model, width); }, options);
}

bool balances_feed_forward(const ModelOptions& options) {
  return std::visit(
      [](const auto& model) {
        return requires { model.feed_forward; };
      },
      options);
}

bool layers_have_heads(const ModelOptions& options) {
  return !std::holds_alternative<SequenceToSequenceOptions>(options) &&
         !std::holds_alternative<HandwritingOptions>(options);
}

std::int64_t output_heads(const ModelOptions& options) {
  return std::visit([](const auto& model) { return output_heads(model); }, options);
}

MechanismText mechanism_text(const ModelOptions& options, std::string_view what) {
  return std::visit([&](const auto& model) { return mechanism_text(model, what); }, options);
}

}  // namespace cogwheel
