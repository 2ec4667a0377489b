#include "cogwheel/nn/tap.h"

#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"
#include "cogwheel/ops/checks.h"

namespace cogwheel {
namespace {

constexpr TapPlaceDescription descriptions[] = {
#define TAP_PLACE(name, shape, replaceable, meaning) {#name, shape, replaceable, meaning},
#include "cogwheel/nn/tap_places.def"
};

std::string name_of(TapPlace place) { return std::string(descriptions[static_cast<std::size_t>(place)].name); }

}  // namespace

std::span<const TapPlaceDescription> tap_places() { return descriptions; }

TapPlace find_tap_place(std::string_view name) {
  std::vector<std::string> names;
  for (const TapPlaceDescription& place : descriptions) {
    if (place.name == name) return static_cast<TapPlace>(&place - descriptions);
    names.emplace_back(place.name);
  }
  throw UsageError(expected_got("tap: place", expected_names(name, names), name));
}

void Tap::read(TapPlace place, Reader reader) {
  functions_[static_cast<std::size_t>(place)] = [reader = std::move(reader)](TapSite site, const at::Tensor& value) {
    reader(site, value);
    return value;
  };
}

void Tap::replace(TapPlace place, Replacer replacer) {
  if (!descriptions[static_cast<std::size_t>(place)].replaceable)
    throw UsageError(expected_got("tap: replace", "a place whose value can be replaced", name_of(place)));
  functions_[static_cast<std::size_t>(place)] = std::move(replacer);
}

at::Tensor Tap::operator()(TapPlace place, TapSite site, const at::Tensor& value) const {
  const Replacer& function = at_place(place);
  if (!function) return value;
  at::Tensor replaced = function(site, value);
  if (!replaced.defined() || replaced.sizes() != value.sizes())
    throw UsageError(expected_got("tap: " + name_of(place), "a tensor of shape " + shape_text(value),
                                  replaced.defined() ? shape_text(replaced) : "none"));
  const auto kind = [](const at::Tensor& of) {
    return std::string(c10::toString(of.scalar_type())) + " on " + of.device().str();
  };
  if (kind(replaced) != kind(value))
    throw UsageError(expected_got("tap: " + name_of(place), kind(value), kind(replaced)));
  return replaced;
}

}  // namespace cogwheel
