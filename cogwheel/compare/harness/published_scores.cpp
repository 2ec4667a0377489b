#include "cogwheel/compare/harness/published_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cogwheel/attention/mechanisms/layer_pattern.h"

namespace cogwheel::compare {
namespace {

constexpr std::array<PublishedScores, 8> reported_scores{
    {{"Transformer", "141M", "softmax", {42.34, 19.54, 57.73, 37.00, 60.54, 51.72, 32.05}},
     {"with differential attention", "141M", "differential", {40.78, 18.86, 57.89, 37.10, 58.82, 53.56, 34.38}},
     {"with centred attention", "141M", "centered", {40.66, 19.11, 58.16, 36.39, 58.33, 55.28, 32.76}},
     {"Cogformer", "141M", "cog", {43.90, 19.54, 59.09, 37.36, 62.25, 54.59, 33.71}},
     {"Transformer", "600M", "softmax", {51.01, 21.33, 64.15, 40.28, 58.09, 54.09, 33.49}},
     {"Cogformer", "600M", "cog", {52.40, 23.46, 63.71, 40.51, 67.16, 55.05, 33.56}},
     {"Transformer", "1B", "softmax", {47.81, 20.22, 61.75, 37.22, 58.33, 58.49, 34.81}},
     {"Cogformer", "1B", "cog", {48.86, 21.59, 62.24, 38.54, 58.33, 61.70, 32.24}}}};

// The paper's name of such a model: that of its layers, or Cog's where these stand among softmax; empty: none.
std::string kind_of(std::string_view mechanism) {
  std::vector<std::string> names = names_of_pattern(mechanism);
  const bool has_cog = std::find(names.begin(), names.end(), "cog") != names.end();
  std::erase_if(names, [&](const std::string& name) { return has_cog && name == "softmax"; });
  return std::all_of(names.begin(), names.end(), [&](const auto& name) { return name == names.front(); })
             ? names.front()
             : "";
}

}  // namespace

std::span<const PublishedScores> published_scores() { return reported_scores; }

std::int64_t published_shots(std::string_view task) { return task == "mrpc" || task == "sst2" || task == "mnli"; }

std::optional<std::string> published_scores_like(std::string_view mechanism, std::string_view task,
                                                 std::int64_t shots) {
  const auto found = std::find(published_tasks.begin(), published_tasks.end(), task);
  if (found == published_tasks.end() || shots != published_shots(task)) return std::nullopt;
  const auto column = static_cast<std::size_t>(found - published_tasks.begin());
  const std::string kind = kind_of(mechanism);
  std::string text;
  for (const PublishedScores& model : reported_scores)
    if (model.mechanism == kind)
      text += fmt::format("{}{:.2f} ({})", text.empty() ? "" : ", ", model.percentages[column], model.size);
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace cogwheel::compare
