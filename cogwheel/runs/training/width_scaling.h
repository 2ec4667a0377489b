// μP of training.base_width: a wide model begins and learns such that what serves the base serves it too. Yang et al.,
// "Tensor Programs V: Tuning Large Neural Networks via Zero-Shot Hyperparameter Transfer" (2022), tables 8 and 9, for
// Adam.
//
// With m = model.width / training.base_width, and r = m where the width of a head follows from model.width, else 1:
//
//                                     begins with        learns at
//   matrices in blocks                σ / √m             η / m          σ, η: as without
//   queries and keys, besides         · r^(−1/4) each    · r^(−1/4)     scores: · √d_base / d instead of 1 / √d
//   λ's vectors of a difference       · r^(−1/2) each    · r^(−1/2)     their product: · d_base / d
//   the norm that the head reads      gain 1 / m         η / m          logits: · 1 / m
//   embeddings, other gains, biases, scalars of mechanisms, the head: unchanged
//
// So the model computes what it always does, and nobody who reads a run needs to know: a factor c before a product is a
// weight that begins with c times its values and learns at c times the rate, exactly so under Adam but for its ε
// (lemma J.1 there). With norms of queries and keys, it is their gains that have these factors. What is 1/m before the
// head stands in the norm because a tied head is the embedding, too.
//
// Each step shrinks a matrix by the same share at each width, rate · training.weight_decay of what is not scaled.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cogwheel/runs/configuration/run_config.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

// Rows of a parameter, of a vector its elements, with the factors of their first values and of their rate.
struct ScaledRows {
  std::int64_t first = 0, count = 0;
  double initial = 1, rate = 1;
};

// By the names of parameters; of each, all of its rows. What is not named has no factors: at training.base_width = 0
// nothing has, nor at the width of the base.
using WidthScaling = std::map<std::string, std::vector<ScaledRows>>;

// Throws UsageError where training.base_width is set for a model that is not known to be scaled so.
void expect_scalable(const RunConfig& config);

// For a configuration that was checked so and its model.
WidthScaling width_scaling(const RunConfig& config, const torch::nn::Module& model);

// Multiplies new weights by their factors; weights that come from another run (task.start) are as they are to be.
void scale_first_values(const WidthScaling& scaling, const RunConfig& config, torch::nn::Module& model);

}  // namespace cogwheel::runs
