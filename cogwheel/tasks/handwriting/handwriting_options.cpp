#include "cogwheel/tasks/handwriting/handwriting_options.h"

#include "cogwheel/attention/mechanisms/graves_window.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::tasks::handwriting {

void check(const HandwritingOptions& options) {
  using Count = Range<std::int64_t>;
  const auto expect = [](const char* name, auto value, const auto& range) {
    expect_within(std::string("model.") + name, value, range);
  };
  expect("vocabulary", options.vocabulary, Count{0, 1 << 20});
  expect("context", options.context, runs::context_range);
  expect("layers", options.layers, Count{1, 100});
  expect("heads", options.heads, Count{1, 1});
  expect("width", options.width, Count{1, 1 << 20});
  expect("mixtures", options.mixtures, Count{1, 10'000});
  expect("curves", options.curves, Count{1, 10'000});
  expect("dropout", options.dropout, runs::dropout_range);
  mechanism_text(options, "model.mechanism");
}

std::int64_t balanced_width(const HandwritingOptions& options) { return options.width; }
void set_balanced_width(HandwritingOptions& options, std::int64_t width) { options.width = width; }
std::int64_t output_heads(const HandwritingOptions& options) { return options.heads; }

nn::MechanismText mechanism_text(const HandwritingOptions& options, std::string_view what) {
  if (options.mechanism == "none") return {.title = "None", .formula = {}, .definition = {}};
  if (options.mechanism == GravesWindow::name)
    return {.title = std::string(GravesWindow::title), .formula = std::string(GravesWindow::formula), .definition = {}};
  throw UsageError(expected_got(what, expected_names(options.mechanism, {std::string(GravesWindow::name), "none"}),
                                options.mechanism));
}

std::vector<runs::ConfigField> config_fields(HandwritingOptions& options) {
  return {
      {"model.mechanism", &options.mechanism}, {"model.vocabulary", &options.vocabulary},
      {"model.context", &options.context},     {"model.layers", &options.layers},
      {"model.heads", &options.heads},         {"model.width", &options.width},
      {"model.mixtures", &options.mixtures},   {"model.curves", &options.curves},
      {"model.dropout", &options.dropout},
  };
}

}  // namespace cogwheel::tasks::handwriting
