// What a model does when single heads give another output: none, the mean one, the opposite, or that of another text.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/nn/hooks/hooks.h"

namespace cogwheel::interpret {

enum class HeadEditKind {
  zero,
  mean,  // of the head's outputs at all tokens of the text in the pass without edits
  flip,  // the sign, as if that of every weight were turned
  patch  // the output of the head for another text, token by token
};
// "zero", "mean", "flip", "patch".
std::vector<std::string> head_edit_names();
HeadEditKind head_edit_kind(std::string_view name, std::string_view what);

struct HeadEdit {
  std::int64_t layer = 0, head = 0;
  HeadEditKind kind{};
  bool operator==(const HeadEdit&) const = default;
};

// attn.hook_z of each layer, [B, N, heads, width].
using HeadOutputs = std::vector<at::Tensor>;

// Adds the edits to hooks of a pass over a text whose outputs without edits are `own`. `other` has those of the text to
// patch from, which needs as many tokens, and may be empty where nothing is patched. Throws UsageError for a head that
// the model does not have, or outputs of another shape. What is passed in must outlive the hooks.
void edit_heads(nn::Hooks& hooks, std::span<const HeadEdit> edits, const HeadOutputs& own, const HeadOutputs& other);

// The place in "L9H4", for a model with that many heads in each layer. Throws UsageError that begins with `what`.
struct HeadPlace {
  std::int64_t layer = 0, head = 0;
};
HeadPlace parse_head_name(std::string_view name, std::span<const std::int64_t> heads, std::string_view what);

}  // namespace cogwheel::interpret
