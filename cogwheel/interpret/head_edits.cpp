#include "cogwheel/interpret/head_edits.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interpret {
namespace {

// The digits after a letter, which are taken from the name.
std::optional<std::int64_t> number_after(char letter, std::string_view& name) {
  if (!name.starts_with(letter)) return {};
  std::int64_t number = 0;
  const char* const first = name.data() + 1;
  const auto [end, problem] = std::from_chars(first, name.data() + name.size(), number);
  if (problem != std::errc() || *first == '-') return {};
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  return number;
}

at::Tensor edited(const at::Tensor& output, const HeadEdit& edit, const HeadOutputs& own, const HeadOutputs& other) {
  const auto layer = static_cast<std::size_t>(edit.layer);
  switch (edit.kind) {
    case HeadEditKind::zero:
      return at::zeros_like(output);
    case HeadEditKind::mean:
      return own[layer].select(2, edit.head).mean(1, /*keepdim=*/true).expand_as(output);
    case HeadEditKind::flip:
      return -output;
    case HeadEditKind::patch:
      return other[layer].select(2, edit.head);
  }
  return output;
}

}  // namespace

std::vector<std::string> head_edit_names() { return {"zero", "mean", "flip", "patch"}; }

HeadEditKind head_edit_kind(std::string_view name, std::string_view what) {
  const std::vector<std::string> names = head_edit_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw UsageError(expected_got(what, expected_names(name, names), name));
  return static_cast<HeadEditKind>(found - names.begin());
}

void edit_heads(nn::Hooks& hooks, std::span<const HeadEdit> edits, const HeadOutputs& own, const HeadOutputs& other) {
  for (const HeadEdit& edit : edits) {
    const auto layer = static_cast<std::size_t>(edit.layer);
    if (edit.layer < 0 || layer >= own.size() || edit.head < 0 || edit.head >= own[layer].size(2))
      throw UsageError(expected_got("head", "one that the model has", head_name(edit.layer, edit.head)));
    if (edit.kind == HeadEditKind::patch && (layer >= other.size() || other[layer].sizes() != own[layer].sizes()))
      throw UsageError(expected_got("patch of " + head_name(edit.layer, edit.head),
                                    "outputs of heads " + shape_text(own[layer].sizes()),
                                    layer < other.size() ? shape_text(other[layer].sizes()) : "none"));
    hooks.replace(
        nn::HookPlace::heads,
        [edit, &own, &other](const nn::HookPoint&, const at::Tensor& z) {
          at::Tensor changed = z.clone();
          changed.select(2, edit.head).copy_(edited(z.select(2, edit.head), edit, own, other));
          return changed;
        },
        edit.layer);
  }
}

HeadPlace parse_head_name(std::string_view name, std::span<const std::int64_t> heads, std::string_view what) {
  std::string_view rest = name;
  const auto layer = number_after('L', rest);
  const auto head = layer ? number_after('H', rest) : std::nullopt;
  const auto layers = static_cast<std::int64_t>(heads.size());
  if (!head || !rest.empty() || *layer >= layers || *head >= heads[static_cast<std::size_t>(*layer)])
    throw UsageError(expected_got(
        what, head_name(0, 0) + " to " + head_name(layers - 1, heads.empty() ? 0 : heads.back() - 1), name));
  return {*layer, *head};
}

}  // namespace cogwheel::interpret
