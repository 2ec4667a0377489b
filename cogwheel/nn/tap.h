// Reads and replaces the intermediate values of a model, at named places (tap_places.def).
//
//   Tap tap;
//   tap.read(TapPlace::weights, [&](TapSite site, const at::Tensor& weights) { maps[site.layer] = weights; });
//   tap.replace(TapPlace::heads, [](TapSite, const at::Tensor& heads) { return at::zeros_like(heads); });
//   model->forward(tokens, {.tap = &tap});
//
// A pass without a tap costs nothing extra; one with a tap computes only what is asked for. Gradients flow through the
// replacements.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace cogwheel {

enum class TapPlace {
#define TAP_PLACE(name, shape, replaceable, meaning) name,
#include "cogwheel/nn/tap_places.def"
};

struct TapPlaceDescription {
  std::string_view name, shape;
  bool replaceable;
  std::string_view meaning;
};

// In the order of a pass: place `p` is entry static_cast<std::size_t>(p).
std::span<const TapPlaceDescription> tap_places();
// Throws UsageError with the nearest names.
TapPlace find_tap_place(std::string_view name);

// Identifies one of several places with the same name.
struct TapSite {
  std::int64_t layer = -1;  // from 0; −1 outside of layers
  bool memory = false;      // in a layer that attends both to its own sequence and to a memory: the latter attention
};

class Tap {
 public:
  using Reader = std::function<void(TapSite site, const at::Tensor& value)>;
  using Replacer = std::function<at::Tensor(TapSite site, const at::Tensor& value)>;

  // At most one function for each place; a later one replaces an earlier one.
  void read(TapPlace place, Reader reader);
  // The returned tensor replaces the value; the pass throws UsageError if its shape, type or device differs. Throws
  // UsageError for a place that can only be read.
  void replace(TapPlace place, Replacer replacer);

  bool wants(TapPlace place) const { return static_cast<bool>(at_place(place)); }
  // The value that the pass continues with: the given one unless a function replaces it.
  at::Tensor operator()(TapPlace place, TapSite site, const at::Tensor& value) const;

 private:
  static constexpr std::size_t places = 0
#define TAP_PLACE(name, shape, replaceable, meaning) +1
#include "cogwheel/nn/tap_places.def"
      ;
  const Replacer& at_place(TapPlace place) const { return functions_[static_cast<std::size_t>(place)]; }

  std::array<Replacer, places> functions_;
};

}  // namespace cogwheel
