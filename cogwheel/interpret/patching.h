// Which values of a pass carry what decides an answer: each is put from a clean pass into a corrupted one, and the
// answer seen to return. Meng, Bau, Andonian and Belinkov, "Locating and Editing Factual Associations in GPT" (2022),
// section 2; estimated for all places at once by one gradient: Nanda, "Attribution Patching" (2023).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/interpret/prompts.h"
#include "cogwheel/nn/hooks/hooks.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

struct Patching {
  double clean = 0, corrupted = 0;  // mean logit differences of the two passes
  // [layers, heads, tokens]: the mean logit difference with that value patched, or its estimate; heads is 1 where the
  // place has none, tokens 1 where all are patched together. NaN in layers without the place.
  at::Tensor patched;

  // (patched − corrupted) / (clean − corrupted): 0 where nothing returns, 1 where all does. Throws UsageError where the
  // two passes do not differ.
  at::Tensor restored() const;
};

struct PatchingOptions {
  nn::HookPlace place = nn::HookPlace::stream_before;  // of layers; of patterns, rows are tokens
  bool by_token = false;                               // each token apart, or all together
};

// `corrupted`: tokens of the shape of the clean ones, answers and places alike. A pass for each value, of the layers
// from its own on.
Patching patch_activations(tasks::language::LanguageModelImpl& model, const Prompts& clean, const at::Tensor& corrupted,
                           const PatchingOptions& options = {});

// The same to first order, from two forward passes and one backward: the gradient in the corrupted pass times the
// difference of values.
Patching attribute_patches(tasks::language::LanguageModelImpl& model, const Prompts& clean, const at::Tensor& corrupted,
                           const PatchingOptions& options = {});

}  // namespace cogwheel::interpret
