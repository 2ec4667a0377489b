#include "cogwheel/interchange/added_rows.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <string>
#include <vector>

#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::interchange {

void add_rows(ModelToWrite& model, std::int64_t count) {
  constexpr double never = -10'000;  // keeps a token from being drawn
  const auto grow = [&](const std::string& name, auto&& row) {
    const auto found = model.weights.find(name);
    if (found == model.weights.end()) return;
    std::vector<at::Tensor> parts(static_cast<std::size_t>(count) + 1, row(found->second));
    parts.front() = found->second;
    found->second = at::cat(parts);
  };
  const auto mean = [](const at::Tensor& rows) { return rows.mean(at::IntArrayRef{0}, true); };
  grow("token_embedding", mean);
  grow("head.weight", mean);
  grow("head.bias", [&](const at::Tensor& biases) { return at::full({1}, never, biases.options()); });
  model.config.model.as<tasks::language::LanguageModelOptions>().vocabulary += count;
}

}  // namespace cogwheel::interchange
