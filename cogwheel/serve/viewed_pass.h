// One pass of a run over a text, with heads as they are or edited: what the viewer shows of it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/interpret/head_edits.h"
#include "cogwheel/serve/head_maps.h"
#include "cogwheel/serve/viewed_run.h"

namespace cogwheel::serve {

struct ViewedPass {
  HeadMaps weights;  // of output heads, as they meet the values
  ValueLengths value_lengths;
  std::vector<float> next;         // logits after the last token, one for each token of the vocabulary
  interpret::HeadOutputs outputs;  // of heads, with the edits
  double seconds = 0;              // of the model, maps included
};

// `own` and `other` as in edit_heads; empty without edits. Throws UsageError where the maps would be more than
// most_map_bytes, or a layer has no weights of heads.
std::shared_ptr<const ViewedPass> view_pass(const ViewedRun& run, const ViewedText& text,
                                            std::span<const interpret::HeadEdit> edits,
                                            const interpret::HeadOutputs& own, const interpret::HeadOutputs& other);

// Scores before the map, of heads, or of both halves of each where it is a difference. Another pass, because they are
// twice the memory of weights. Throws UsageError for a model whose layers have none.
std::shared_ptr<const HeadMaps> view_scores(const ViewedRun& run, const ViewedText& text,
                                            std::span<const interpret::HeadEdit> edits,
                                            const interpret::HeadOutputs& own, const interpret::HeadOutputs& other);
bool has_scores(const ViewedRun& run);

inline constexpr std::size_t most_map_bytes = std::size_t{1} << 30;

}  // namespace cogwheel::serve
