// What a model says after a text: its likeliest next tokens, and by how much it prefers one of two.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/serve/viewed_run.h"

namespace cogwheel::serve {

struct SaidNext {
  std::string title;          // "with edits"
  std::vector<float> logits;  // one for each token
};

// [{"token": piece, "probabilities": [of each column]}]: the likeliest of each, ordered by the first.
nlohmann::ordered_json next_tokens(const ViewedRun& run, std::span<const SaidNext> columns);

// {"answer", "foil", "differences": [of each column], "change": share of the second column's that the first lost or
// won} or {"problem": a line} where the names are not two tokens or there is nothing to be a share of; null without
// names.
nlohmann::ordered_json logit_difference_of(const ViewedRun& run, std::span<const SaidNext> columns,
                                           const std::string& answer, const std::string& foil, bool edited);

}  // namespace cogwheel::serve
