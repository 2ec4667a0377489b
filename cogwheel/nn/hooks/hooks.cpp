#include "cogwheel/nn/hooks/hooks.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>

#include <algorithm>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/hooks/tensor_version.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::nn {
namespace {

constexpr HookPlaceDescription descriptions[] = {
#define HOOK_PLACE(place, owner, name, shape, replaceable, on_request, meaning) \
  {HookOwner::owner, name, shape, replaceable, on_request, meaning},
#include "cogwheel/nn/hooks/hook_places.def"
};

const HookPlaceDescription& description_of(HookPlace place) { return descriptions[static_cast<std::size_t>(place)]; }

bool has_nan(const at::Tensor& value) {
  return value.is_floating_point() && !value.is_meta() && value.isnan().any().item<bool>();
}

bool is_held_once(const at::Tensor& value) {
  return value.use_count() == 1 && value.has_storage() && value.storage().use_count() == 1;
}

// A value of torch.func.vmap, at whatever level: its numbers cannot be looked at.
bool is_batched(at::Tensor value) {
  while (const auto* wrapper = at::functorch::maybeGetTensorWrapper(value)) value = wrapper->value();
  return at::functorch::isBatchedTensor(value);
}

// NaN equals NaN.
bool same_numbers(const at::Tensor& one, const at::Tensor& other) {
  const at::NoGradGuard no_gradient;
  return one.is_same(other) || one.equal(other) ||
         (has_nan(one) && one.eq(other).logical_or(one.isnan().logical_and(other.isnan())).all().item<bool>());
}

}  // namespace

std::span<const HookPlaceDescription> hook_places() { return descriptions; }

std::string HookPoint::name() const {
  const HookPlaceDescription& description = description_of(place);
  std::string name;
  if (description.owner == HookOwner::layer && layer >= 0) name = "blocks." + std::to_string(layer) + ".";
  return name + (memory ? "memory." : "") + std::string(description.name);
}

HookPoint find_hook_point(std::string_view name, std::span<const HookPoint> points) {
  std::vector<std::string> names;
  for (const HookPoint& point : points) {
    names.push_back(point.name());
    if (names.back() == name) return point;
  }
  throw UsageError(expected_got("hook", expected_names(name, names), name));
}

void Hooks::read(HookPlace place, Reader reader, std::optional<std::int64_t> layer) {
  functions_[static_cast<std::size_t>(place)].push_back(
      {.layer = layer,
       .call =
           [reader = std::move(reader)](const HookPoint& at, const at::Tensor& value) {
             reader(at, value);
             return at::Tensor();
           },
       .replaces = false});
}

void Hooks::replace(HookPlace place, Replacer replacer, std::optional<std::int64_t> layer) {
  if (!description_of(place).replaceable)
    throw UsageError(
        expected_got("hooks: replace", "a place whose value can be replaced", std::string(description_of(place).name)));
  functions_[static_cast<std::size_t>(place)].push_back(
      {.layer = layer, .call = std::move(replacer), .replaces = true});
}

void Hooks::supply(HookPlace place, Supplier supplier, std::optional<std::int64_t> layer) {
  if (place != HookPlace::attention_output && place != HookPlace::feed_forward_output)
    throw UsageError(
        expected_got("hooks: supply", "hook_attn_out or hook_mlp_out", std::string(description_of(place).name)));
  supplies_.push_back({place, layer, std::move(supplier)});
}

at::Tensor Hooks::supplied(const HookPoint& at) const {
  const auto found = std::find_if(supplies_.rbegin(), supplies_.rend(), [&](const Supply& each) {
    return each.place == at.place && (!each.layer || *each.layer == at.layer);
  });
  return found == supplies_.rend() ? at::Tensor() : found->call(at);
}

bool Hooks::wants(HookPlace place, std::int64_t layer) const {
  const auto& functions = at_place(place);
  return std::any_of(functions.begin(), functions.end(), [&](const Function& each) { return each.is_for(layer); });
}

bool Hooks::replaces(HookPlace place, std::int64_t layer) const {
  const auto& functions = at_place(place);
  return std::any_of(functions.begin(), functions.end(),
                     [&](const Function& each) { return each.replaces && each.is_for(layer); });
}

bool Hooks::changed(HookPlace place, std::int64_t layer, const at::Tensor& before, const at::Tensor& after) const {
  return replaces(place, layer) && !same_numbers(before, after);
}

at::Tensor Hooks::operator()(const HookPoint& at, at::Tensor current) const {
  for (const Function& function : at_place(at.place)) {
    if (!function.is_for(at.layer)) continue;
    if (!function.replaces) {
      function.call(at, current);
      continue;
    }
    if (is_batched(current))
      throw UsageError(expected_got(at.name(), "a pass whose numbers hooks can compare", "one within torch.func.vmap"));
    // The value may share its memory with weights, with other values of the pass, and with what functions before this
    // one keep; then only a copy can be written into without changing these.
    const at::Tensor own = is_held_once(current) ? std::move(current) : current.clone();
    const std::int64_t before = tensor_version(own);
    at::Tensor replaced = function.call(at, own);
    if (replaced.is_same(own)) {
      if (tensor_version(own) != before && has_nan(own)) throw UsageError(expected_got(at.name(), "numbers", "NaN"));
      current = own;
      continue;
    }
    if (!replaced.defined() || replaced.sizes() != own.sizes())
      throw UsageError(expected_got(at.name(), "a tensor of shape " + ops::shape_text(own),
                                    replaced.defined() ? ops::shape_text(replaced) : "none"));
    const auto kind = [](const at::Tensor& of) {
      return std::string(c10::toString(of.scalar_type())) + " on " + of.device().str();
    };
    if (kind(replaced) != kind(own)) throw UsageError(expected_got(at.name(), kind(own), kind(replaced)));
    if (has_nan(replaced) && !has_nan(own)) throw UsageError(expected_got(at.name(), "numbers", "NaN"));
    current = std::move(replaced);
  }
  return current;
}

}  // namespace cogwheel::nn
