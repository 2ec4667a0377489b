// What a language model loses where single layers of another take the place of its own.
#pragma once
#include <cstdint>
#include <vector>

namespace cogwheel::runs {
struct Batch;
}

namespace cogwheel::tasks::language {
class LanguageModel;
}

namespace cogwheel::surgery {

// Of a pass beside that of the model as it was, each the mean over tokens.
struct SwapCost {
  double loss = 0;        // in nats
  double divergence = 0;  // KL(p ‖ q) in nats, p of the model as it was
  double agreement = 0;   // the share of tokens after which the same token is the likeliest
};

struct LayerSwaps {
  std::int64_t tokens = 0;
  double loss = 0;               // of the model as it was
  std::vector<SwapCost> layers;  // by layer, each alone in another's place
  SwapCost all;                  // the other model as a whole
};

// Each layer of `other`, a block with its norms and its feed-forward, in the place of that of `model`, which it must
// fit: embedding, the other layers and the head stay the model's. A window is one pass of the model, and for each layer
// the rest of one. Windows as of a batch, with or without documents in them.
LayerSwaps layer_swaps(tasks::language::LanguageModel& model, tasks::language::LanguageModel& other,
                       const runs::Batch& windows);

}  // namespace cogwheel::surgery
