#include "cogwheel/tasks/language/convertible.h"

#include <cstdint>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::language {

void expect_convertible(const LanguageModelOptions& start, const LanguageModelOptions& model, const std::string& name) {
  const auto expect = [&](const char* key, std::int64_t had, std::int64_t got) {
    if (had != got)
      throw UsageError(expected_got(std::string("model.") + key, std::to_string(had) + ", as " + name + " has",
                                    std::to_string(got)));
  };
  expect("width", start.width, model.width);
  expect("layers", start.layers, model.layers);
  expect("vocabulary", start.vocabulary, model.vocabulary);
  expect("feed_forward", start.feed_forward_width(), model.feed_forward_width());
  // SwiGLU has a matrix more.
  const auto gated = [](const LanguageModelOptions& options) { return options.activation == "swiglu"; };
  if (gated(start) != gated(model))
    throw UsageError(expected_got("model.activation", start.activation + ", as " + name + " has", model.activation));
}

}  // namespace cogwheel::tasks::language
