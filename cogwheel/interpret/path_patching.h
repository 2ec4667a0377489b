// What one head tells others directly: its output at the last token is that of the corrupted prompt, all other
// attention is that of the clean one, and what changes reaches the receivers through the residual stream and the
// feed-forward networks alone. Wang et al., "Interpretability in the Wild" (2023), section 3.1 and appendix B.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "cogwheel/interpret/prompts.h"
#include "cogwheel/nn/hooks/hooks.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

// What a head's queries, keys or values are made of.
struct PathReceiver {
  nn::HookPlace place = nn::HookPlace::query_input;  // or key_input, value_input
  std::int64_t layer = 0, head = 0;                  // of keys and values, the head that they are shared by
};

struct PathPatchingOptions {
  // None: the residual stream after the last layer. Else the receivers read what was sent, at the last token, and
  // everything after them follows.
  std::vector<PathReceiver> receivers = {};
  bool freeze_feed_forward = false;  // then nothing is sent but directly
};

struct PathPatching {
  double clean = 0;    // the mean logit difference of the clean prompts
  at::Tensor patched;  // [layers, heads]: that with the path patched; NaN for senders that no receiver can hear

  // (patched − clean) / clean. Throws UsageError where the clean prompts have no difference.
  at::Tensor change() const;
};

// Passes: one each for the clean and corrupted prompts, and for each layer one over the last token alone, without
// attention, for all of its heads; with receivers, for each sender the layers from the first of them on. Throws
// UsageError for a model with layers that have no heads.
PathPatching patch_paths(tasks::language::LanguageModelImpl& model, const Prompts& clean, const at::Tensor& corrupted,
                         const PathPatchingOptions& options = {});

}  // namespace cogwheel::interpret
