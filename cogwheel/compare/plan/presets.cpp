#include "cogwheel/compare/plan/presets.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/tasks/language/language_preset.h"

namespace cogwheel::compare {
namespace {

std::vector<runs::Preset> make_presets() {
  // nanoGPT's configuration for a CPU; its other settings (β₂ 0.99, weight decay 0.1, clip 1, no biases, tied head) are
  // the defaults of model and training.
  runs::Preset small = tasks::language::language_preset(
      "small", "4 layers, 4 heads, width 128, context 64, batch 12; 5 to 9 minutes on two cores", 4, 4, 128, 64, 12);
  small.attention.insert(small.attention.begin() + 2, "softmax+cog*2+softmax");  // Cogformer
  runs::Preset tiny = tasks::language::language_preset(
      "tiny", "2 layers, 2 heads, width 32, context 32, batch 8; seconds, to try things out", 2, 2, 32, 32, 8);
  tiny.training.learning_rate = 3e-3;
  tiny.training.final_learning_rate = 3e-4;
  tiny.training.curve_tokens = 1024;
  tiny.evaluated_tokens = 8192;
  tiny.seconds = 15;
  runs::Preset medium = tasks::language::language_preset(
      "medium", "6 layers, 6 heads, width 384, context 256, batch 16; hours", 6, 6, 384, 256, 16);
  medium.attention.insert(medium.attention.begin() + 2, "softmax+cog*4+softmax");
  medium.training.curve_tokens = 16384;
  medium.evaluated_tokens = 262144;
  medium.seconds = 4 * 3600;
  std::vector<runs::Preset> all{small, tiny, medium};
  for (const runs::TaskEntry& entry : runs::tasks()) {
    if (entry.preset != nullptr) all.push_back(entry.preset());
    for (const auto& preset : entry.other_presets) all.push_back(preset());
  }
  return all;
}

}  // namespace

std::span<const runs::Preset> presets() {
  static const std::vector<runs::Preset> all = make_presets();
  return all;
}

const runs::Preset& find_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const runs::Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.emplace_back(preset.name);
  }
  throw UsageError(expected_got("--preset", expected_names(name, names), name));
}

}  // namespace cogwheel::compare
